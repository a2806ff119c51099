// Saving what is shown: the picture as SVG or PNG, the weights as JSON.

import {colourOf, element, furnish, isDashed, svg} from './drawing.js';
import {legend, line, words} from './legend.js';

const PIXELS = 2; // of a PNG for each of the page's
const LINE_WIDTH = 640; // pixels of the page, at least, for what stands below
const MARGIN = 12;

/** The drawing as the text of an SVG file, with what the page around it tells. */
export function asSvg(drawing, scene) {
  const copy = drawing.cloneNode(true);
  copy.querySelectorAll('.cursor').forEach((cursor) => cursor.remove());
  const [width, height] = ['width', 'height'].map((name) => Number(copy.getAttribute(name)));
  const below = legend(caption(scene), Math.max(width, LINE_WIDTH));
  const corner = {x: -MARGIN, y: -MARGIN};
  const size = {width: Math.max(width, below.width) + 2 * MARGIN, height: height + below.height + 2 * MARGIN};
  furnish(copy, {...size, viewBox: Object.values({...corner, ...size}).join(' ')});
  furnish(copy.querySelector('rect'), {...corner, ...size});
  copy.append(svg('g', {class: 'caption', transform: `translate(0 ${height})`}, ...below.nodes));
  // Of the control characters a token may hold, XML takes none but these.
  return new XMLSerializer().serializeToString(copy).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd');
}

function caption(scene) {
  const heads = scene.view === 'lines' ? scene.shown : [];
  return [
    ...[scene.record.tag, `step ${scene.record.step}`, scene.title].map(words),
    ...heads.map((head) => line({stroke: colourOf(head), 'stroke-dasharray': isDashed(head) ? '6 4' : null}, `head ${head + 1}`)),
  ];
}

export function saveSvg(drawing, scene, name) {
  save(new Blob([asSvg(drawing, scene)], {type: 'image/svg+xml'}), `${name}.svg`);
}

export async function savePng(drawing, scene, name) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asSvg(drawing, scene))}`;
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
