// What the colours and figures of a drawing mean: parts side by side, in as many lines as they need.

import {SMALL, image, svg, widthOf} from './drawing.js';
import {DOT} from './tokens.js';

const LINE_HEIGHT = 22; // pixels
const APART = 22;
const SCALE = {width: 110, height: 10, steps: 55};
const MARK = 14;

/** Lays out the parts in lines no longer than `room`, if they can be; gives the nodes, and the pixels they take. */
export function legend(parts, room) {
  let [x, line, width] = [0, 0, 0];
  const nodes = parts.flatMap((part) => {
    if (x && x + part.width > room) [x, line] = [0, line + 1];
    const drawn = part.draw(x, (line + 0.5) * LINE_HEIGHT);
    width = Math.max(width, x + part.width);
    x += part.width + APART;
    return drawn;
  });
  return {nodes, width, height: parts.length ? (line + 1) * LINE_HEIGHT + 6 : 0};
}

/** The colours of the weights from 0 to 1. */
export function scale(colours) {
  const [zero, one] = ['weight 0', '1'].map(words);
  const weights = Float32Array.from({length: SCALE.steps}, (_, step) => step / (SCALE.steps - 1));
  const left = zero.width + 6;
  const draw = (x, y) => {
    const place = {x: x + left, y: y - SCALE.height / 2, width: SCALE.width, height: SCALE.height};
    return [
      ...zero.draw(x, y),
      image(weights, 1, SCALE.steps, colours, {class: 'scale', ...place}),
      svg('rect', {...place, fill: 'none', stroke: colours.line}),
      ...one.draw(x + left + SCALE.width + 6, y),
    ];
  };
  return {width: left + SCALE.width + 6 + one.width, draw};
}

/** The frame of a cell that is aligned, and what it says. */
export function frame(colours, text) {
  const place = (x, y) => ({x: x + 1, y: y - MARK / 2, width: MARK, height: MARK});
  return marked((x, y) => svg('rect', {...place(x, y), fill: 'none', stroke: colours.mark, 'stroke-width': 2}), text);
}

/** A line as it is drawn, and what it stands for. */
export function line(attributes, text) {
  return marked((x, y) => svg('path', {d: `M${x},${y} h${MARK + 2}`, 'stroke-width': 3, ...attributes}), text);
}

/** What a dot before a token says, where one has it (tokens.js). */
export function goesOn(texts) {
  return texts.some((text) => text.startsWith(DOT)) ? [words(`${DOT} no space before the token`)] : [];
}

export function words(text) {
  return {
    width: widthOf(text),
    draw: (x, y) => [svg('text', {x, y, 'dominant-baseline': 'central', 'font-size': SMALL, direction: 'ltr'}, text)],
  };
}

function marked(mark, text) {
  const said = words(text);
  return {width: MARK + 8 + said.width, draw: (x, y) => [mark(x, y), ...said.draw(x + MARK + 8, y)]};
}
