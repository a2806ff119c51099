// The plugin's entry: TensorBoard loads it in a frame of its own and calls `render`.

import {show} from './app.js';
import {Address} from './memory.js';
import {Server} from './source.js';
import {element} from './drawing.js';

export function render() {
  document.documentElement.lang = 'en';
  document.title = 'Attention';
  document.head.append(element('link', {rel: 'stylesheet', href: new URL('attention.css', import.meta.url), onload: start}));
}

function start() {
  const root = element('div', {class: 'attention'});
  document.body.append(root);
  const {draw} = show(root, new Server(new URL('.', import.meta.url)), new Address(window.parent, 'p.attention.'));
  // TensorBoard marks its dark mode so.
  const body = window.parent.document.body;
  const follow = () => root.classList.toggle('dark', body.classList.contains('dark-mode'));
  follow();
  new MutationObserver(() => {
    follow();
    draw();
  }).observe(body, {attributes: true, attributeFilter: ['class']});
}
