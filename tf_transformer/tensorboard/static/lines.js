// Lines from each token to those it attends to, all heads of a layer in their colours.

import {colourOf, drawing, isDashed, svg, tokenText, widest, widthOf, within} from './drawing.js';
import {goesOn, legend} from './legend.js';
import {pick} from './weights.js';

const STEP = [22, 32]; // pixels from one token to the next, the least and the most
const BETWEEN = [120, 480]; // pixels, the least and the most
const MOST = 1500; // lines; more would be slow and no clearer

/** Draws the lines of the heads in `scene.shown`: what is attended to on the left, what attends on the right. */
export function lines(scene) {
  const {rows, columns, rowTexts, columnTexts, colours, room} = scene;
  const names = {rows: scene.names.rows.join(', '), columns: scene.names.columns.join(', ')};
  const left = Math.max(widest(columnTexts), widthOf(names.columns)) + 14;
  const rest = Math.max(widest(rowTexts), widthOf(names.rows)) + 14;
  const right = left + within(room.width - left - rest, ...BETWEEN);
  const middle = (left + right) / 2;
  const longest = Math.max(rows.length, columns.length);
  const step = within(room.height / (longest + 1), ...STEP);
  const y = (place) => step * (place + 1.6);
  const found = strongest(scene);
  const paths = found.map(({head, row, column, weight}) =>
    svg('path', {
      d: `M${left},${y(column)} C${middle},${y(column)} ${middle},${y(row)} ${right},${y(row)}`,
      stroke: colourOf(head), 'stroke-width': (0.6 + 3 * weight).toFixed(2), 'stroke-opacity': Math.max(0.06, weight).toFixed(3),
      'stroke-dasharray': isDashed(head) ? '6 4' : null, 'data-row': row, 'data-column': column, 'data-head': head,
    }),
  );

  /** Leaves the lines of one token alone, or with null all. */
  function only(side, place) {
    for (const path of paths) path.setAttribute('visibility', place === null || path.dataset[side] === String(place) ? 'visible' : 'hidden');
  }

  const labels = (texts, tokens, side, x, anchor) =>
    texts.map((text, place) =>
      tokenText(text, tokens[place], {
        class: 'token', x, y: y(place), 'text-anchor': anchor, 'dominant-baseline': 'central', tabindex: 0, role: 'button',
        'data-side': side, 'aria-label': `only the lines of ${text}`,
        onmouseenter: () => only(side, place), onmouseleave: () => only(side, null),
        onfocus: () => only(side, place), onblur: () => only(side, null),
      }),
    );
  const name = (text, x, anchor) => svg('text', {class: 'name', x, y: y(-1), 'text-anchor': anchor, 'dominant-baseline': 'central', fill: colours.faint}, text);
  return drawing(
    right + rest,
    y(longest) - step / 2,
    colours,
    found.told,
    legend(goesOn([...rowTexts, ...columnTexts]), room.width),
    svg('g', {class: 'lines', fill: 'none'}, ...paths),
    name(names.columns, left - 8, 'end'),
    name(names.rows, right + 8, 'start'),
    ...labels(columnTexts, columns, 'column', left - 8, 'end'),
    ...labels(rowTexts, rows, 'row', right + 8, 'start'),
  );
}

/** The weights of at least `scene.least`, at most MOST of them, strong ones last; `told` says how many there are. */
function strongest({weights, heads, shown, columns, least}) {
  const found = [];
  let largest = 0;
  for (const head of shown) {
    pick(weights, heads, head).forEach((weight, place) => {
      largest = Math.max(largest, weight);
      if (weight < least) return;
      found.push({head, weight, row: Math.floor(place / columns.length), column: place % columns.length});
    });
  }
  found.sort((a, b) => a.weight - b.weight);
  const all = found.length;
  const drawn = found.slice(-MOST);
  let told = all > MOST ? `the ${MOST} strongest of ${all} lines` : `${all} ${all === 1 ? 'line' : 'lines'}`;
  if (!all && shown.length) told = `no lines: the largest weight is ${largest.toFixed(2)}`;
  return Object.assign(drawn, {told});
}
