// The heat map of one head: a cell for each weight, tokens on both axes.

import {SMALL, drawing, image, svg, tokenText, widest, widthOf, within} from './drawing.js';
import {frame, goesOn, legend, scale} from './legend.js';
import {pick} from './weights.js';

const CELL = [15, 56]; // pixels: the least and the most
const TEXT = [11, 14];
const EASY = 20; // pixels: a cell no smaller than that may be made larger or smaller for the height of the window
const TILT = 50; // degrees, of the tokens across
const [COS, SIN] = [Math.cos, Math.sin].map((of) => of((TILT * Math.PI) / 180));
const NAME = 20; // pixels above the tokens across, for their name

const MOVES = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

/** Draws the heat map. `tell(text)` is called with what the mouse or the keyboard's cursor is on. */
export function heatMap(scene, tell) {
  const {rows, columns, rowTexts, columnTexts, names, colours, room} = scene;
  const weights = pick(scene.weights, scene.heads, scene.picked);
  const leftOf = (size) => Math.max(widest(rowTexts, size), widthOf(names.rows[0]), widthOf(names.rows[1])) + 8;
  const rightOf = (size) => Math.ceil(COS * widest(columnTexts, size)) + SMALL; // what the last slanted token takes
  const across = (room.width - leftOf(TEXT[1]) - rightOf(TEXT[1])) / columns.length;
  const cell = within(Math.floor(Math.min(across, Math.max(EASY, room.height / rows.length))), ...CELL);
  const size = within(Math.floor(cell * SIN), ...TEXT); // with which slanted tokens keep clear of each other
  const left = leftOf(size);
  const top = NAME + Math.ceil(SIN * widest(columnTexts, size)) + SMALL;
  const [width, height] = [columns.length * cell, rows.length * cell];
  const at = (row, column) => ({x: left + column * cell, y: top + row * cell, width: cell, height: cell});

  const aligned = scene.kind === 'cross' && scene.alignment ? scene.alignment : [];
  const marks = aligned.flatMap((column, row) =>
    column < 0 ? [] : [svg('rect', {class: 'aligned', ...at(row, column), fill: 'none', stroke: colours.mark, 'stroke-width': 2})],
  );
  const cursor = svg('rect', {class: 'cursor', ...at(0, 0), fill: 'none', stroke: colours.text, 'stroke-width': 2, visibility: 'hidden'});
  const rowLabels = rowTexts.map((text, row) =>
    tokenText(text, rows[row], {x: left - 6, y: top + (row + 0.5) * cell, 'text-anchor': 'end', 'dominant-baseline': 'central', 'font-size': size}),
  );
  const columnLabels = columnTexts.map((text, column) => {
    const [x, y] = [left + (column + 0.5) * cell, top - 5];
    return tokenText(text, columns[column], {x, y, transform: `rotate(${-TILT} ${x} ${y})`, 'dominant-baseline': 'central', 'font-size': size});
  });
  let [row, column] = [0, 0];

  function show(newRow, newColumn) {
    [rowLabels[row], columnLabels[column]].forEach((label) => label.removeAttribute('font-weight'));
    [row, column] = [newRow, newColumn];
    [rowLabels[row], columnLabels[column]].forEach((label) => label.setAttribute('font-weight', 'bold'));
    for (const [name, value] of Object.entries(at(row, column))) cursor.setAttribute(name, value);
    cursor.setAttribute('visibility', 'visible');
    const weight = weights[row * columns.length + column].toFixed(3);
    tell(`${rowTexts[row]} → ${columnTexts[column]}: ${weight}${aligned[row] === column ? ', aligned' : ''}`);
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
    show(within(row + move[0], 0, rows.length - 1), within(column + move[1], 0, columns.length - 1));
  }

  const field = svg(
    'g',
    {
      class: 'cells', role: 'application', tabindex: 0,
      'aria-label': `weights of ${rows.length} by ${columns.length} tokens; the arrow keys move from one to the next`,
      onmousemove: followMouse, onkeydown: followKeys, onfocus: () => show(row, column),
    },
    image(weights, rows.length, columns.length, colours, {x: left, y: top, width, height}),
    svg('rect', {class: 'frame', x: left, y: top, width, height, fill: 'none', stroke: colours.line}),
    ...marks,
    cursor,
  );
  const told = legend(
    [
      scale(colours),
      ...(aligned.length ? [frame(colours, 'alignment, over all layers and heads')] : []),
      ...goesOn([...rowTexts, ...columnTexts]),
    ],
    room.width,
  );
  const name = (text, attributes) => svg('text', {class: 'name', fill: colours.faint, ...attributes}, text);
  return drawing(
    left + width + rightOf(size),
    top + height + 4,
    colours,
    'heat map',
    told,
    name(names.rows[0], {x: left - 6, y: top - 24, 'text-anchor': 'end'}),
    name(`${names.rows[1]} ↓`, {x: left - 6, y: top - 8, 'text-anchor': 'end'}),
    name(`${names.columns.join(', ')} →`, {x: left, y: 12}),
    ...rowLabels,
    ...columnLabels,
    field,
  );
}
