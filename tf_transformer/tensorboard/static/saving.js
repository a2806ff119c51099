// Saving what is shown: the picture as SVG or PNG, the weights as JSON.

import {element} from './drawing.js';

const PIXELS = 2; // of a PNG for each of the page's

/** The drawing as the text of an SVG file. */
export function asSvg(drawing) {
  const copy = drawing.cloneNode(true);
  copy.querySelectorAll('.cursor').forEach((cursor) => cursor.remove());
  // Of the control characters a token may hold, XML takes none but these.
  return new XMLSerializer().serializeToString(copy).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd');
}

export function saveSvg(drawing, name) {
  save(new Blob([asSvg(drawing)], {type: 'image/svg+xml'}), `${name}.svg`);
}

export async function savePng(drawing, name) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asSvg(drawing))}`;
  await picture.decode();
  const canvas = element('canvas', {width: PIXELS * picture.width, height: PIXELS * picture.height});
  canvas.getContext('2d').drawImage(picture, 0, 0, canvas.width, canvas.height);
  save(await new Promise((done) => canvas.toBlob(done, 'image/png')), `${name}.png`);
}

/** Weights as nested lists, layers of heads of rows. `layers` are Float32Arrays (heads, rows, columns). */
export function saveJson(facts, layers, {heads, rows, columns}, name) {
  const size = rows.length * columns.length;
  const nested = layers.map((layer) =>
    Array.from({length: heads}, (_, head) =>
      rows.map((_, row) => Array.from(layer.subarray(head * size + row * columns.length, head * size + (row + 1) * columns.length))),
    ),
  );
  const text = JSON.stringify({...facts, rows, columns, weights: nested});
  save(new Blob([text], {type: 'application/json'}), `${name}.json`);
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  // What no file name may hold.
  element('a', {href: url, download: name.replace(/[\\/:*?"<>|\u0000-\u001f]+/g, '_').slice(-120)}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
