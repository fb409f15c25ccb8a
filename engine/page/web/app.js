// Builds the page from the data: the toolbar, one card for each plot, the table
// and the dialog of a trial, all of which share one State. `start` reads the
// data that a report embeds; a live page calls `build` with what it has loaded
// (live.js), and again when experiments, metrics or hyperparameters are not the
// same any more.

import {bestSoFar, countRungs, decimatedPoints, distributionOf, effortsOf, estimateField,
  meanBand, paretoFront, ranksOf, robustRange, smoothed} from './analysis.js';
import {FilterError, matches, parseFilter} from './query.js';
import {Data, decodeBase64, formatDuration, formatNumber, inflate, readBundle}
  from './data.js';
import {State, trialFields} from './state.js';
import {choice, directionChoice, element, experimentStyle, patchChildren, rankColor, readTheme, setExperiments,
  shorten, showColors} from './chart.js';
import {Curves, Distribution, History, MetricGrid, Pareto} from './plots.js';
import {Rungs, Timeline} from './progress.js';
import {Contour, Importance, Parallel, Slice} from './space.js';
import {flatten, SideBySide, Table, TrialView} from './table.js';

const MAX_SLICES = 60;

function timeText(milliseconds) {
  return milliseconds === null ? '–' : new Date(milliseconds).toLocaleString();
}

function factTable(facts) {
  return element('table', {class: 'facts'}, ...facts.map(([name, value]) =>
    element('tr', {}, element('th', {scope: 'row'}, name), element('td', {}, value))));
}

// "lr 0.01, optimizer adam" of the best trial.
function searchedText(data, {best, searched}) {
  const trial = data.trialOf(best.trial);
  const axes = data.axes.filter((axis) => searched.some(({name}) => name === axis.name) && trial >= 0 &&
      data.hasHparam(axis, trial));
  return axes.slice(0, 12).map((axis) => `${shorten(axis.name, 40)} ${shorten(data.hparamText(axis, trial), 40)}`)
      .join(', ') + (axes.length > 12 ? ` and ${axes.length - 12} more` : '');
}

export function summary(data) {
  const section = element('section', {class: 'card wide', id: 'summary'}, element('h2', {}, 'Summary'));
  const parts = element('div', {class: 'summaries'});
  for (const one of data.experiments) {
    const states = new Map();
    let seconds = 0;
    for (let i = one.first; i < one.first + one.count; ++i) {
      const name = data.stateOf(i);
      states.set(name, (states.get(name) || 0) + 1);
      seconds += data.trials.seconds[i];
    }
    const facts = [
      ['state', one.state + (one.error ? ': ' + one.error : '')],
      ['searcher', `${one.searcher}, ${one.metric} (${one.smaller_is_better ? 'smallest' : 'largest'})`],
      ['best', one.best ? `${formatNumber(Number(one.best.value))} in trial ${one.best.trial} ` +
          `at ${one.best.at}` : 'none'],
      ...(one.best && one.searched.length ? [['with', searchedText(data, one)]] : []),
      ['trials', [...states].map(([name, count]) => `${count} ${name}`).join(', ') || 'none'],
      ['time', `${formatDuration(one.seconds)}, ${formatDuration(seconds)} in trials; ` +
          `created ${timeText(one.created)}`],
      ['metrics', `${one.metrics.rows} values` + (one.metrics.thinned ? `, thinned to ` +
          `${one.rows.value.length} for this page; the extremes of each curve are kept` : '')],
    ];
    if (one.filter) {
      facts.push(['filter', `${one.filter.matching} of ${one.filter.trials} trials match ` +
          `${one.filter.expression}; this page has no others`]);
    }
    if (one.confirmed?.length) facts.push(['confirms', one.confirmed.map(({text}) => text).join('; ')]);
    if (one.labels.length) facts.push(['labels', one.labels.map((label) => shorten(label, 100)).join(', ')]);
    if (one.note) facts.push(['note', one.note]);
    const title = element('h3', {}, element('span', {class: 'swatch block'}), ` ${one.id} ${one.name}`);
    title.firstChild.style.background = experimentStyle(one.index);
    const part = element('div', {}, title, factTable(facts));
    if (one.best) {
      part.append(element('pre', {}, [`dtrain reproduce ${one.best.trial}`, ...(one.best.checkpoint ?
        [`dtrain continue ${one.best.trial} --best`, `dtrain checkpoint show ${one.best.checkpoint}`] :
        one.best.files ? [`dtrain files ${one.best.trial}  # ${one.best.files}`] : [])].join('\n')));
    }
    parts.append(part);
  }
  section.append(parts);
  return section;
}

function records(data) {
  const section = element('section', {class: 'card wide', id: 'configuration'},
      element('h2', {}, 'Configuration and provenance'));
  for (const one of data.experiments) {
    section.append(
        element('details', {}, element('summary', {}, `${one.id} ${one.name}: YAML`),
            element('pre', {}, one.yaml)),
        element('details', {}, element('summary', {}, `${one.id} ${one.name}: provenance`),
            factTable(flatten(one.provenance))));
  }
  return section;
}

// Filter, metric and scale of all plots, always in sight.
function toolbar(state) {
  const {data} = state;
  const filter = element('input', {type: 'search', id: 'filter', spellcheck: 'false',
    placeholder: 'filter: ' + exampleFilter(data), 'aria-label': 'filter of trials'});
  filter.value = state.get('filter');
  filter.addEventListener('input', () => {
    state.set({filter: filter.value});
    state.speak(state.error ? '' : countText(state));
  });
  const shown = element('span', {class: 'fact', id: 'shown'});
  const error = element('p', {class: 'error', id: 'filter-error', role: 'alert'});
  const clear = element('button', {type: 'button', id: 'clear', onclick: () => {
    filter.value = '';
    state.hidden.clear();
    state.set({filter: '', brush: ''});
  }}, 'Clear');
  const direction = element('span');
  const at = element('span');  // a choice of lengths, if there are several
  const metrics = data.metrics.map((one) => [one.key, `${one.name} (${one.kind})`]);
  const axes = data.varyingAxes();
  const colors = axes.length ? [choice('color by', [['', data.experiments.length > 1 ? 'experiment, rank' : 'rank'],
    ...axes.map(({name}) => ['hp.' + name, name])], state.get('color'), (color) => state.set({color}))] : [];
  const bar = element('div', {class: 'toolbar'},
      ...(metrics.length ? [choice('metric', metrics, state.metric(), (metric) => state.set({metric}))] : []),
      direction, choice('scale', [['', 'linear'], ['all', 'linear, all values'], ['y', 'log']],
          state.get('log'), (log) => state.set({log})), at, ...colors, filter, shown, clear, themeButton(state), error);
  if (data.experiments.length > 1) bar.append(experimentToggles(state));
  state.onChange(() => {
    patchChildren(direction, metrics.length ? [directionChoice(state, state.metric(), '')] : []);
    const lengths = data.lengths(state.metric());
    patchChildren(at, lengths.length < 2 ? [] : [choice('compare at', [['', 'best validation'],
      ...lengths.map((one) => [String(one), `${formatNumber(one)} ${data.experiments[0].unit || 'batches'}`])],
    state.get('at'), (chosen) => state.set({at: chosen}))]);
    shown.textContent = countText(state);
    if (error.textContent !== state.error) error.textContent = state.error;
    clear.hidden = state.shown === data.trials.count && !state.error;
    if (document.activeElement !== filter) filter.value = state.get('filter');
  });
  return bar;
}

const countText = (state) => `${state.shown} of ${state.data.trials.count} trials`;

function exampleFilter(data) {
  const axis = data.axes.find((one) => !one.choices.length && one.name.length < 40);
  return axis ? `hp.${axis.name} < ${formatNumber((axis.low + axis.high) / 2)} and state != ERROR` :
    'state == COMPLETED';
}

function experimentToggles(state) {
  const list = element('div', {class: 'toggles'});
  for (const one of state.data.experiments) {
    const box = element('input', {type: 'checkbox', checked: true});
    box.addEventListener('change', () => state.toggleExperiment(one.index));
    const swatch = element('span', {class: 'swatch block'});
    swatch.style.background = experimentStyle(one.index);
    list.append(element('label', {}, box, swatch, ` ${one.id} ${one.name}`));
    state.onChange(() => { box.checked = !state.hidden.has(one.index); });
  }
  return list;
}

function themeButton(state) {
  const apply = () => { document.documentElement.dataset.theme = state.get('theme') || ''; };
  apply();
  return element('button', {type: 'button', id: 'theme', title: 'light or dark', onclick: () => {
    const dark = getComputedStyle(document.documentElement).getPropertyValue('--dark').trim() === '1';
    state.values.theme = dark ? 'light' : 'dark';
    apply();
    state.set({});
  }}, '◐');
}

// Draws everything for paper: in the light theme, as wide as a page. Printing
// waits for no frame, so that it is drawn at once.
function preparePrinting(charts, table, signal) {
  const root = document.documentElement.dataset;
  let theme = '';
  const draw = () => {
    for (const chart of charts()) {
      chart.due = true;
      chart.drawNow();
    }
  };
  window.addEventListener('beforeprint', () => {
    theme = root.theme || '';
    root.theme = 'light';
    root.printing = '';
    draw();
    table.print(true);
  }, {signal});
  window.addEventListener('afterprint', () => {
    root.theme = theme;
    delete root.printing;
    draw();
    table.print(false);
  }, {signal});
}

export function build(data, order = null) {
  const state = new State(data);
  state.order = order;
  setExperiments(data);
  readTheme();
  state.onChange(readTheme);
  const main = document.querySelector('main');
  const charts = [new History(state), new Distribution(state), new Curves(state), new Parallel(state),
    new Importance(state), new Contour(state), new Pareto(state), new Rungs(state),
    new Timeline(state)];
  const varying = data.varyingAxes();
  const slices = varying.slice(0, MAX_SLICES).map((axis) => new Slice(state, axis));
  const sliceColors = element('div', {class: 'legend fact'});
  state.onChange(() => showColors(sliceColors, state, true));
  const grid = new MetricGrid(state);
  const sliceCard = element('section', {class: 'card wide', id: 'slices'},
      element('h2', {}, 'Slices'), element('p', {class: 'about'},
          'Each hyperparameter against the metric.' +
          (slices.length < varying.length ?
            ` The ${slices.length} most important of ${varying.length} are shown.` : '')),
      sliceColors, element('div', {class: 'slices'}, ...slices.map((chart) => chart.card)));
  const table = new Table(state);
  const pinned = new SideBySide(state);
  const view = new TrialView(state);
  document.querySelector('header .toolbar')?.remove();
  main.tabIndex = -1;
  document.getElementById('skip').onclick = () => {
    main.scrollIntoView();
    main.focus({preventScroll: true});
  };
  document.querySelector('header').append(toolbar(state));
  main.replaceChildren(summary(data), ...charts.flatMap((chart) =>
    (chart instanceof Curves ? [chart.card, grid.card] : [chart.card])),
      ...(slices.length ? [sliceCard] : []), pinned.card, table.card, records(data), view.dialog);
  const all = () => [...charts, ...slices, ...grid.drawn || []];
  preparePrinting(all, table, state.ended.signal);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => state.changed(),
      {signal: state.ended.signal});
  state.changed();
  const drawAll = () => all().forEach((chart) => chart.drawNow());
  return {state, data, charts, slices, grid, table, drawAll};
}

async function start() {
  const message = document.getElementById('message');
  try {
    const text = document.getElementById('data').textContent.trim();
    const data = new Data(readBundle(await inflate(decodeBase64(text))));
    // For the console, and for tests.
    window.dtrain = {...build(data), FilterError, matches, parseFilter, bestSoFar, countRungs,
      decimatedPoints, distributionOf, effortsOf, estimateField, meanBand, paretoFront, rankColor, ranksOf, robustRange, smoothed,
      trialFields};
    message.remove();
  } catch (error) {
    message.textContent = 'The data of this page cannot be read: ' + error.message +
        '. It needs a browser of 2023 or later.';
    throw error;
  }
}

// A live page (live.js) has no data of its own.
if (document.getElementById('data')) start();
