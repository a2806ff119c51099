// The grid: a small heat map of every head of every layer, to see at a glance which does what.

import {drawing, image, svg, within} from './drawing.js';
import {legend, scale, words} from './legend.js';
import {COMBINED, entropy, nameOf, pick} from './weights.js';

const SIDE = [72, 240]; // pixels: the least and the most for the longer side of a map
const LARGEST_CELL = 40; // the most for a cell: a short sentence needs no large map
const NARROWEST = 44; // the width of the words above and below a map
const LEFT = 56;
const TOP = 24;
const GAP = 10;
const UNDER = 18; // room for the entropy

/** Draws the grid. `open(layer, picked)` is called with the map that was clicked. */
export function grid(scene, open) {
  const {rows, columns, heads, colours, room} = scene;
  const picks = [...Array(heads).keys(), ...COMBINED];
  const longest = Math.max(rows.length, columns.length);
  // As large as lets all heads lie side by side.
  const widest = (room.width - LEFT) / picks.length - GAP;
  const side = within(Math.floor(Math.min((widest * longest) / columns.length, LARGEST_CELL * longest)), ...SIDE);
  const [width, height] = [columns, rows].map((tokens) => Math.max(12, (side * tokens.length) / longest));
  const [across, down] = [Math.max(width, NARROWEST) + GAP, height + UNDER + GAP];
  const parts = picks.map((picked, place) =>
    svg('text', {x: LEFT + place * across + width / 2, y: 15, 'text-anchor': 'middle'}, nameOf(picked)),
  );
  scene.all.forEach((weights, layer) => {
    const y = TOP + layer * down;
    parts.push(svg('text', {x: 0, y: y + height / 2, 'dominant-baseline': 'middle'}, `layer ${layer + 1}`));
    picks.forEach((picked, place) => {
      const map = pick(weights, heads, picked);
      parts.push(smallMap(map, LEFT + place * across, y, {layer, picked, width, height, scene, open}));
    });
  });
  const told = legend(
    [
      scale(colours),
      words(`rows ↓ ${scene.names.rows.join(', ')}`),
      words(`columns → ${scene.names.columns.join(', ')}`),
      ...(scene.cut ? [] : [words('bits: entropy, mean of the rows'), words('0 bits: each row has one weight of 1')]),
    ],
    room.width,
  );
  return drawing(LEFT + picks.length * across, TOP + scene.all.length * down, colours, 'all heads of all layers', told, ...parts);
}

function smallMap(map, x, y, {layer, picked, width, height, scene, open}) {
  const {rows, columns, colours} = scene;
  const name = `layer ${layer + 1}, ${nameOf(picked)}`;
  // The maximum over heads is no distribution, and a part of one is none either: their entropy would mean nothing.
  const told = picked === 'max' || scene.cut ? '' : `${entropy(map, rows.length).toFixed(2)} bits`;
  return svg(
    'g',
    {
      class: 'map', role: 'button', tabindex: 0, cursor: 'pointer', 'data-layer': layer, 'data-picked': picked,
      'aria-label': told ? `${name}, entropy ${told}` : name,
      onclick: () => open(layer, picked),
      onkeydown: (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        open(layer, picked);
      },
    },
    svg('title', {}, name),
    image(map, rows.length, columns.length, colours, {x, y, width, height}),
    svg('rect', {class: 'frame', x: x - 0.5, y: y - 0.5, width: width + 1, height: height + 1, fill: 'none', stroke: colours.line}),
    svg('text', {x: x + width / 2, y: y + height + 13, 'text-anchor': 'middle', 'font-size': 11, fill: colours.faint}, told),
  );
}
