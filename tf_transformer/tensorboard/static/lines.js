// Lines from each token to those it attends to, all heads of a layer in their colours.

import {colourOf, drawing, isDashed, svg, tokenText, widest} from './drawing.js';
import {pick} from './weights.js';

const STEP = 22; // pixels from one token to the next
const BETWEEN = 260;
const LEAST = 0.01; // a weight below it would not be seen
const MOST = 1500; // lines; more would be slow and no clearer

/** Draws the lines of the heads in `scene.shown`: what is attended to on the left, what attends on the right. */
export function lines(scene) {
  const {rows, columns, colours} = scene;
  const left = widest(columns) + 14;
  const right = left + BETWEEN;
  const y = (place) => STEP * (place + 0.8);
  const found = strongest(scene);
  const paths = found.map(({head, row, column, weight}) =>
    svg('path', {
      d: `M${left},${y(column)} C${left + BETWEEN / 2},${y(column)} ${left + BETWEEN / 2},${y(row)} ${right},${y(row)}`,
      stroke: colourOf(head), 'stroke-width': (0.6 + 3 * weight).toFixed(2), 'stroke-opacity': Math.max(0.06, weight).toFixed(3),
      'stroke-dasharray': isDashed(head) ? '6 4' : null, 'data-row': row, 'data-column': column, 'data-head': head,
    }),
  );

  /** Leaves the lines of one token alone, or with null all. */
  function only(side, place) {
    for (const path of paths) path.setAttribute('visibility', place === null || path.dataset[side] === String(place) ? 'visible' : 'hidden');
  }

  const words = (tokens, side, x, anchor) =>
    tokens.map((token, place) =>
      tokenText(token, {
        class: 'token', x, y: y(place), 'text-anchor': anchor, 'dominant-baseline': 'central', tabindex: 0, role: 'button',
        'data-side': side, 'aria-label': `only the lines of ${token}`,
        onmouseenter: () => only(side, place), onmouseleave: () => only(side, null),
        onfocus: () => only(side, place), onblur: () => only(side, null),
      }),
    );
  return drawing(
    right + widest(rows) + 14,
    y(Math.max(rows.length, columns.length)),
    colours,
    found.cut ? `the ${MOST} strongest of ${found.all} lines` : `${found.all} lines`,
    svg('g', {class: 'lines', fill: 'none'}, ...paths),
    ...words(columns, 'column', left - 8, 'end'),
    ...words(rows, 'row', right + 8, 'start'),
  );
}

/** The weights worth a line, at most MOST of them; `cut` says whether there were more, `all` how many. */
function strongest({weights, heads, shown, rows, columns}) {
  const found = [];
  for (const head of shown) {
    pick(weights, heads, head).forEach((weight, place) => {
      if (weight < LEAST) return;
      found.push({head, weight, row: Math.floor(place / columns.length), column: place % columns.length});
    });
  }
  const all = found.length;
  // Strong ones last, on top.
  found.sort((a, b) => a.weight - b.weight);
  return Object.assign(found.slice(-MOST), {cut: all > MOST, all});
}
