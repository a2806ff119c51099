// What all drawings are made of: nodes and text, so that a token is never read as markup. Their looks are attributes and
// not a style sheet's, so that a drawing that is saved looks as it did on the page.

const SVG = 'http://www.w3.org/2000/svg';
const LONGEST_LABEL = 24; // characters

export const FONT = '"Roboto", "Noto Sans", "DejaVu Sans", sans-serif';
export const SMALL = 12; // pixels

/** The heads' colours, told apart by people who see colours otherwise too (Okabe and Ito, 2008). */
const HEAD_COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#b8860b', '#56b4e9', '#7f7f7f', '#8a5cc7'];

export function colourOf(head) {
  return HEAD_COLOURS[head % HEAD_COLOURS.length];
}

/** Whether a head is told from the one of its colour by dashes. */
export function isDashed(head) {
  return Math.floor(head / HEAD_COLOURS.length) % 2 === 1;
}

/** Makes an HTML element. Attributes are set as text, those that begin with "on" are listeners. */
export function element(name, attributes = {}, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** Makes an SVG element in the same way. */
export function svg(name, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

export function furnish(node, attributes, children = []) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'style') node.style.cssText = value; // which a Content-Security-Policy allows, as it does no attribute
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? '' : String(value));
  }
  node.append(...children);
  return node;
}

/** A drawing of so many pixels, below its legend (legend.js). */
export function drawing(width, height, colours, label, legend, ...children) {
  const size = {width: Math.max(width, legend.width), height: height + legend.height};
  return svg(
    'svg',
    {
      viewBox: `0 0 ${size.width} ${size.height}`, ...size, role: 'group', 'aria-label': label,
      'font-family': FONT, 'font-size': SMALL, fill: colours.text,
    },
    svg('rect', {...size, fill: colours.paper}),
    svg('g', {class: 'legend'}, ...legend.nodes),
    svg('g', {transform: `translate(0 ${legend.height})`}, ...children),
  );
}

/** A token in a drawing: the text that shows it, cut where it is very long, with the token itself as its title. */
export function tokenText(text, token, attributes) {
  return svg('text', {'unicode-bidi': 'isolate', 'xml:space': 'preserve', ...attributes}, svg('title', {}, token), labelOf(text));
}

function labelOf(text) {
  const characters = [...text];
  return characters.length > LONGEST_LABEL ? `${characters.slice(0, LONGEST_LABEL - 1).join('')}…` : text;
}

const pen = document.createElement('canvas').getContext('2d');

/** How many pixels wide the widest of some tokens' texts is drawn. */
export function widest(texts, size = SMALL) {
  return Math.max(0, ...texts.map((text) => widthOf(labelOf(text), size, 'bold'))); // as a token is drawn that is pointed at
}

export function widthOf(text, size = SMALL, weight = 'normal') {
  pen.font = `${weight} ${size}px ${FONT}`;
  return Math.ceil(pen.measureText(text).width);
}

export function within(number, least, most) {
  return Math.max(least, Math.min(most, number));
}

/** Weights as an image in which each is a pixel, as dark as it is large. */
export function image(weights, rows, columns, colours, attributes) {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(columns, rows);
  const [paper, ink] = [colours.cell, colours.ink].map(channels);
  for (let i = 0; i < rows * columns; i++) {
    const weight = Math.min(1, weights[i]);
    for (let c = 0; c < 3; c++) pixels.data[4 * i + c] = Math.round(paper[c] + weight * (ink[c] - paper[c]));
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  return svg('image', {
    href: canvas.toDataURL(), preserveAspectRatio: 'none', style: 'image-rendering: pixelated', ...attributes,
  });
}

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}
