// Where attention comes from: TensorBoard's server, or the page itself.

import {fromFloat16} from './weights.js';

const KEPT = 100; // answers; a sentence of 60 tokens in 6 layers and 3 kinds is 18 of them

/** The plugin's routes; the last answers are kept. */
export class Server {
  grows = true; // runs may be added, and steps

  constructor(base) {
    this.base = base;
    this.kept = new Map();
  }

  /** The steps of each tag of each run, and damaged files: {runs, damaged}. Asked for again each time. */
  async runs() {
    this.kept.clear(); // a run may have been written again
    return (await this.get('runs')).json();
  }

  /** All of a record but its weights. */
  header(record) {
    return this.once('header', record, (answer) => answer.json());
  }

  /** A layer's weights, Float32Array (heads, rows, columns). */
  layer(record, kind, layer) {
    return this.once('layer', {...record, kind, layer}, async (answer) => fromFloat16(await answer.arrayBuffer()));
  }

  once(route, query, read) {
    const key = `${route}?${new URLSearchParams(query)}`;
    if (!this.kept.has(key)) {
      const found = this.get(key).then(read);
      found.catch(() => this.kept.delete(key));
      this.kept.set(key, found);
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(key);
  }

  async get(route) {
    const answer = await fetch(new URL(route, this.base));
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.error || `the server answered ${answer.status}`);
  }
}

/** Records that lie in the page: {run: {tag: {step: {header, layers: {kind: [base64]}}}}}. */
export class Page {
  grows = false;

  constructor(records) {
    this.records = records;
  }

  async runs() {
    const each = (values, change) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value)]));
    return {runs: each(this.records, (tags) => each(tags, (steps) => Object.keys(steps).map(Number))), damaged: {}};
  }

  async header({run, tag, step}) {
    return this.records[run][tag][step].header;
  }

  async layer({run, tag, step}, kind, layer) {
    const bytes = atob(this.records[run][tag][step].layers[kind][layer]);
    return fromFloat16(Uint8Array.from(bytes, (character) => character.charCodeAt(0)).buffer);
  }
}
