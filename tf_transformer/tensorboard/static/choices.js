// The choices beside the view: run, sentence and step, chosen as in TensorBoard's own tabs.

import {element} from './drawing.js';

/**
 * Makes the choices. `change(values)` is called with what was chosen, `reload()` to ask for what is new; without it
 * nothing new can come, and only what leaves a choice is there.
 */
export function makeChoices(change, reload) {
  const filter = (name, what) =>
    element('input', {
      type: 'search', name, placeholder: `Filter ${what} (regex)`, 'aria-label': `Filter ${what} by a regular expression`,
      oninput: (event) => change({[name]: event.target.value}),
    });
  const list = (name) => element('div', {class: 'list', role: 'radiogroup', 'aria-label': name});
  const filters = {runs: filter('runs', 'runs'), tags: filter('tags', 'sentences')};
  const lists = {run: list('Run'), tag: list('Sentence')};
  const slider = element('input', {type: 'range', name: 'step', min: 0, 'aria-label': 'Step'});
  const step = element('output');
  const notices = element('div');
  let steps = [];
  slider.addEventListener('input', () => change({step: String(steps[slider.value])}));

  const only = element('p', {class: 'only'});
  const parts = {
    runs: element('section', {}, element('h2', {}, 'Runs'), filters.runs, lists.run),
    tags: element('section', {}, element('h2', {}, 'Sentences'), filters.tags, lists.tag),
    steps: element('section', {}, element('h2', {}, 'Step ', step), slider),
  };
  const again = reload ? [element('button', {type: 'button', name: 'reload', onclick: reload}, 'Reload')] : [];
  const node = element('nav', {class: 'choices', 'aria-label': 'What is shown'}, only, ...Object.values(parts), ...again, notices);

  /** Shows what there is to choose from, and what is chosen. */
  function update(state, {runs, tags, steps: newSteps, damaged}) {
    const isChoice = (values, pattern) => Boolean(reload || values.length > 1 || pattern);
    for (const [name, input] of Object.entries(filters)) {
      if (input.value !== state[name]) input.value = state[name];
      input.setAttribute('aria-invalid', String(!regexOf(state[name])));
    }
    fill(lists.run, 'run', runs, state.run);
    fill(lists.tag, 'tag', tags, state.tag);
    steps = newSteps;
    slider.max = Math.max(0, steps.length - 1);
    slider.value = steps.map(String).indexOf(state.step);
    slider.hidden = steps.length < 2;
    only.textContent = isChoice(runs, state.runs) ? '' : state.run;
    parts.runs.hidden = !isChoice(runs, state.runs);
    filters.tags.hidden = !isChoice(tags, state.tags);
    parts.steps.hidden = !isChoice(steps);
    slider.setAttribute('aria-valuetext', `step ${state.step}`);
    step.textContent = state.step;
    notices.replaceChildren(
      ...Object.entries(damaged).map(([file, what]) => element('p', {class: 'notice'}, `${file}: ${what}`)),
    );
  }

  function fill(list, name, values, chosen) {
    const shown = [...list.querySelectorAll('input')].map((input) => input.value);
    if (shown.length !== values.length || shown.some((value, i) => value !== values[i])) {
      list.replaceChildren(
        ...values.map((value) =>
          element(
            'label',
            {},
            element('input', {type: 'radio', name, value, onchange: () => change({[name]: value})}),
            element('bdi', {}, value),
          ),
        ),
      );
    }
    for (const input of list.querySelectorAll('input')) input.checked = input.value === chosen;
  }

  return {node, update};
}

/** The names that a pattern is found in; with one that is no regular expression, all. */
export function matching(names, pattern) {
  const regex = regexOf(pattern);
  return regex ? names.filter((name) => regex.test(name)) : names;
}

function regexOf(pattern) {
  try {
    return new RegExp(pattern, 'i');
  } catch {
    return null;
  }
}
