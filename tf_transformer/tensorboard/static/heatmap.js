// The heat map of one head: a cell for each weight, tokens on both axes.

import {SMALL, drawing, image, svg, tokenText, widest} from './drawing.js';
import {pick} from './weights.js';

const FIELD = 640; // pixels that the cells fill, if their number lets them
const CELL = [12, 28]; // the least and the most for one
const TILT = 45; // degrees, of the tokens across

const MOVES = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

/** Draws the heat map. `tell(text)` is called with what the mouse or the keyboard's cursor is on. */
export function heatMap(scene, tell) {
  const {rows, columns, colours} = scene;
  const weights = pick(scene.weights, scene.heads, scene.picked);
  const cell = Math.min(CELL[1], Math.max(CELL[0], Math.floor(FIELD / Math.max(rows.length, columns.length))));
  const size = Math.min(SMALL, cell);
  const left = widest(rows, size) + 8;
  const slant = Math.ceil(widest(columns, size) * Math.SQRT1_2) + SMALL;
  const [width, height] = [columns.length * cell, rows.length * cell];
  const at = (row, column) => ({x: left + column * cell, y: slant + row * cell, width: cell, height: cell});

  const aligned = scene.kind === 'cross' && scene.alignment ? scene.alignment : [];
  const marks = aligned.flatMap((column, row) =>
    column < 0 ? [] : [svg('rect', {class: 'aligned', ...at(row, column), fill: 'none', stroke: colours.mark, 'stroke-width': 2})],
  );
  const cursor = svg('rect', {class: 'cursor', ...at(0, 0), fill: 'none', stroke: colours.text, 'stroke-width': 2, visibility: 'hidden'});
  const down = rows.map((token, row) =>
    tokenText(token, {x: left - 6, y: slant + (row + 0.5) * cell, 'text-anchor': 'end', 'dominant-baseline': 'central', 'font-size': size}),
  );
  const across = columns.map((token, column) => {
    const [x, y] = [left + (column + 0.5) * cell, slant - 5];
    return tokenText(token, {x, y, transform: `rotate(${-TILT} ${x} ${y})`, 'dominant-baseline': 'central', 'font-size': size});
  });
  let [row, column] = [0, 0];

  function show(newRow, newColumn) {
    [down[row], across[column]].forEach((label) => label.removeAttribute('font-weight'));
    [row, column] = [newRow, newColumn];
    [down[row], across[column]].forEach((label) => label.setAttribute('font-weight', 'bold'));
    for (const [name, value] of Object.entries(at(row, column))) cursor.setAttribute(name, value);
    cursor.setAttribute('visibility', 'visible');
    const weight = weights[row * columns.length + column].toFixed(3);
    tell(`${rows[row]} → ${columns[column]}: ${weight}${aligned[row] === column ? ', aligned' : ''}`);
  }

  function followMouse(event) {
    const box = field.firstChild.getBoundingClientRect();
    const place = [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
    const [newRow, newColumn] = [Math.floor(place[0] * rows.length), Math.floor(place[1] * columns.length)];
    if (rows[newRow] !== undefined && columns[newColumn] !== undefined) show(newRow, newColumn);
  }

  function followKeys(event) {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    const within = (place, tokens) => Math.min(tokens.length - 1, Math.max(0, place));
    show(within(row + move[0], rows), within(column + move[1], columns));
  }

  const field = svg(
    'g',
    {
      class: 'cells', role: 'application', tabindex: 0,
      'aria-label': `weights of ${rows.length} by ${columns.length} tokens; the arrow keys go from one to the next`,
      onmousemove: followMouse, onkeydown: followKeys, onfocus: () => show(row, column),
    },
    image(weights, rows.length, columns.length, colours, {x: left, y: slant, width, height}),
    svg('rect', {class: 'frame', x: left, y: slant, width, height, fill: 'none', stroke: colours.line}),
    ...marks,
    cursor,
  );
  return drawing(left + width + slant, slant + height + 4, colours, 'heat map', ...down, ...across, field);
}
