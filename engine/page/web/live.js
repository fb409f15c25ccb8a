// The page of `dtrain serve`: loads the chosen experiments, follows the events
// of the server, and fetches only what has changed.
//
// Server sends requests with the token, which it takes from the fragment of the
// address and keeps for this tab, and reads the stream of events; a stream that
// is silent for SILENCE_MS is given up and opened again. Experiment holds what
// has arrived of one experiment: first its record, then its metrics page by
// page from the place that the last answer named, then changes since the moment
// that the last answer was read. Live is the list of experiments and passes
// events on.
//
// What the server computes over all trials (importance, rungs, checkpoints) is
// in the record only, which is loaded again when the experiment ends, and
// before that at most every WHOLE_MS. While experiments, metrics and
// hyperparameters stay the same, new data goes into the same Data, so that
// plots and the reader's choices stay; otherwise the page is built again. A
// redraw patches what is there, and waits while a pointer is pressed: what moves
// away between press and release gets no click.

import {FilterError, matches, parseFilter} from './query.js';
import {Data, formatDuration, formatNumber, readBundle} from './data.js';
import {countOf, element, patch, patchChildren, shorten} from './chart.js';
import {build, summary} from './app.js';

const MAX_ROWS = 2_000_000;  // of metrics in memory
const MAX_KNOWN = 256;
const WHOLE_MS = 10_000;     // between two loads of a whole experiment that changes
const STEP_MS = 250;         // between two loads of changes
const SILENCE_MS = 40_000;   // the server sends something every 15 s
const FINAL = ['COMPLETED', 'CANCELED', 'ERROR', 'STOPPED', 'INVALID'];
const LISTED = 500;          // experiments in the list, and more on request

const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });

class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The server. The token comes in the fragment of the address, once. */
class Server {
  constructor() {
    this.takeToken('');
    this.token ||= sessionStorage.getItem('dtrain-token') || '';
  }

  /** Takes the token out of the address, which gets `fragment` instead; true if there was one. */
  takeToken(fragment) {
    const given = new URLSearchParams(location.hash.slice(1)).get('token');
    if (!given) return false;
    sessionStorage.setItem('dtrain-token', given);
    history.replaceState(null, '', location.pathname + location.search + fragment);
    this.token = given;
    return true;
  }

  async request(path, options = {}) {
    const reply = await fetch(path, {...options, cache: 'no-store', credentials: 'omit',
      headers: {...options.headers, Authorization: 'Bearer ' + this.token}});
    if (reply.ok) return reply;
    const text = await reply.text();
    let error = text.trim();
    try { error = JSON.parse(text).error ?? error; } catch { /* plain text */ }
    throw new Refused(reply.status, error);
  }

  async bundle(path) {
    const reply = await this.request(path);
    return readBundle(new Uint8Array(await reply.arrayBuffer()));
  }

  async control(order) {
    await this.request('/api/control', {method: 'POST', body: JSON.stringify(order),
      headers: {'Content-Type': 'application/json'}});
  }

  /** Calls onEvent for each event until the stream ends. */
  async follow(onEvent) {
    const ended = new AbortController();
    this.stop = () => ended.abort();
    const reply = await this.request('/api/events', {signal: ended.signal});
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    let timer = 0;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => ended.abort(), SILENCE_MS);
    };
    try {
      for (;;) {
        watch();
        const {value, done} = await reader.read();
        if (done) return;
        const events = (text + value).split('\n\n');
        text = events.pop();
        for (const event of events) {
          if (event.startsWith('data: ')) onEvent(JSON.parse(event.slice(6)));
        }
      }
    } finally {
      clearTimeout(timer);
      ended.abort();
    }
  }
}

/** One experiment: its record, and what has arrived of its trials and metrics. */
class Experiment {
  constructor(server, id, onChange, onProgress) {
    Object.assign(this, {server, id, onChange, onProgress});
    this.record = null;
    this.places = new Map();  // by trial, its place in the record
    this.series = new Map();  // by trial, then by kind/name: {batches, milliseconds, value}
    this.rows = 0;
    this.recent = new Set();  // trials of the last changes
    this.rewound = new Set();  // trials whose metrics may have been replaced
    this.loading = true;
    this.dirty = false;
    this.whole = 0;  // time of the last load of everything but metrics
  }

  /** Loads everything; shows the record at once, and the metrics when all have arrived. */
  async load() {
    await this.loadRecord();
    this.onChange();
    let place = '0:0:-1';
    while (place && !this.closed && this.rows < MAX_ROWS) {
      const {document, column} =
          await this.server.bundle(`/api/experiment/${this.id}/metrics?from=${place}`);
      this.addMetrics(document.metrics, column);
      const {next} = document.metrics;
      place = next && `${next.trial}:${next.kind}:${next.after}`;
      this.onProgress();
    }
    this.cut = Boolean(place);
    this.loading = false;
    this.onChange();
    this.changed();  // since the record was read
  }

  async loadRecord() {
    const {document, column} = await this.server.bundle(`/api/experiment/${this.id}`);
    const [record] = document.experiments;
    this.whole = performance.now();
    this.read = document.read;
    for (const [name, ref] of Object.entries(record.trials)) {
      record.trials[name] = Array.from(column(ref));
    }
    for (const axis of record.searched) axis.values = Array.from(column(axis.values));
    for (const name of ['trial', 'batches', 'bytes']) {
      record.checkpoints[name] = column(record.checkpoints[name]);
    }
    if (record.compared) record.compared.values = column(record.compared.values);
    this.fields = document.fields;
    record.trials.number.forEach((number, i) => this.compareRuns(number, record.trials.runs[i]));
    this.record = record;
    this.places = new Map(record.trials.number.map((number, i) => [number, i]));
  }

  /** Fetches changes now, or again after those that are on their way. */
  async changed() {
    this.dirty = true;
    if (this.busy || this.loading || document.hidden) return;
    this.busy = true;
    try {
      while (this.dirty && !this.closed) {
        this.dirty = false;
        const start = performance.now();
        await this.update(start);
        this.onChange();
        await sleep(Math.max(STEP_MS, 3 * (performance.now() - start)) -
            (performance.now() - start));
      }
    } catch (error) {
      this.dirty = true;
      this.onChange(error);
    } finally {
      this.busy = false;
    }
  }

  async update(start) {
    const known = this.known();
    const {document, column} = await this.server.bundle(
        `/api/experiment/${this.id}/changes?since=${this.read}` +
        (known.length ? '&known=' + known.map((numbers) => numbers.join(':')).join(',') : ''));
    for (const [number] of known) this.rewound.delete(number);  // not after a failure
    const [change] = document.experiments;
    this.read = document.read;
    this.mergeTrials(change, column);
    this.addMetrics(change.metrics, column);
    if (change.more) this.dirty = true;
    const ended = FINAL.includes(change.state) !== FINAL.includes(this.record.state);
    for (const name of ['trials', 'searched', 'metrics', 'reasons', 'slots', 'more']) delete change[name];
    Object.assign(this.record, change);
    if (ended || start - this.whole > WHOLE_MS) await this.loadRecord();
    else this.scheduleWhole();
  }

  // What changes only with a whole load (importance, rungs, checkpoints) follows.
  scheduleWhole() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      if (this.busy || this.closed || document.hidden) return;
      try {
        await this.loadRecord();
        this.onChange();
        if (this.dirty) this.changed();
      } catch (error) {
        this.onChange(error);
      }
    }, WHOLE_MS);
  }

  // Trials that may get new rows, with the last batches of training and
  // validation that are here.
  known() {
    const running = this.record.states.indexOf('RUNNING');
    const numbers = new Set([...this.rewound, ...this.recent]);
    this.record.trials.state.forEach((state, i) => {
      if (state === running) numbers.add(this.record.trials.number[i]);
    });
    return [...numbers].slice(0, MAX_KNOWN).map((number) => {
      const last = {training: -1, validation: -1};
      if (!this.rewound.has(number)) {
        for (const [key, {batches}] of this.series.get(number) || []) {
          const kind = key.slice(0, key.indexOf('/'));
          last[kind] = Math.max(last[kind], batches[batches.length - 1] ?? -1);
        }
      }
      return [number, last.training, last.validation];
    });
  }

  // A trial with another run than before may have gone back to a checkpoint.
  compareRuns(number, runs) {
    const before = this.record?.trials.runs[this.places.get(number)];
    if (!before || before === runs) return;
    this.rewound.add(number);
    this.dirty = true;
  }

  mergeTrials(change, column) {
    const all = this.record.trials;
    const columns = Object.fromEntries(
        Object.entries(change.trials).map(([name, ref]) => [name, column(ref)]));
    const axes = change.searched.map((axis) => column(axis.values));
    this.recent = new Set();
    columns.number.forEach((number, from) => {
      this.recent.add(number);
      this.compareRuns(number, columns.runs[from]);
      let to = this.places.get(number);
      const isNew = to === undefined;
      if (isNew) {
        to = all.number.length;
        this.places.set(number, to);
      }
      for (const name of Object.keys(all)) {
        if (name !== 'lane') all[name][to] = columns[name][from];
      }
      if (isNew) all.lane[to] = this.freeLane();
      this.record.searched.forEach((axis, i) => { axis.values[to] = axes[i][from]; });
    });
    for (const name of ['reasons', 'slots']) Object.assign(this.record[name], change[name]);
  }

  // The lowest lane of the timeline that no running trial has.
  freeLane() {
    const {state, lane} = this.record.trials;
    const running = this.record.states.indexOf('RUNNING');
    const used = new Set(lane.filter((_, i) => state[i] === running));
    let free = 0;
    while (used.has(free)) ++free;
    return free;
  }

  addMetrics(metrics, column) {
    const [trial, metric, count, batches, milliseconds, value] =
        ['trial', 'metric', 'count', 'batches', 'milliseconds', 'value']
            .map((name) => column(metrics[name]));
    if (metrics.batches_per_epoch) this.perEpoch = metrics.batches_per_epoch;
    let begin = 0;
    for (let i = 0; i < trial.length; ++i) {
      const {kind, name} = metrics.names[metric[i]];
      const key = kind + '/' + name;
      if (!this.series.has(trial[i])) this.series.set(trial[i], new Map());
      const own = this.series.get(trial[i]);
      if (!own.has(key)) own.set(key, {batches: [], milliseconds: [], value: []});
      const rows = own.get(key);
      let keep = rows.batches.length;  // rows that the new ones do not replace
      while (keep > 0 && rows.batches[keep - 1] >= batches[begin]) --keep;
      this.rows += count[i] - (rows.batches.length - keep);
      for (const [name, from] of Object.entries({batches, milliseconds, value})) {
        rows[name].length = keep;
        for (let n = begin; n < begin + count[i]; ++n) rows[name].push(from[n]);
      }
      begin += count[i];
    }
  }

  /** The experiment as Data expects it, its columns in place of references. */
  assembled() {
    const names = [];
    const places = new Map();
    const placeOf = (key) => {
      if (!places.has(key)) {
        places.set(key, names.length);
        const at = key.indexOf('/');
        names.push({kind: key.slice(0, at), name: key.slice(at + 1)});
      }
      return places.get(key);
    };
    placeOf('validation/' + this.record.metric);
    const metrics = {names, rows: this.rows, kept: this.rows, thinned: false,
      batches_per_epoch: this.perEpoch ?? null, trial: [], metric: [], count: [],
      batches: new Float64Array(this.rows), milliseconds: new Float64Array(this.rows),
      value: new Float64Array(this.rows)};
    let at = 0;
    for (const [trial, series] of this.series) {
      for (const [key, rows] of series) {
        metrics.trial.push(trial);
        metrics.metric.push(placeOf(key));
        metrics.count.push(rows.batches.length);
        for (const name of ['batches', 'milliseconds', 'value']) metrics[name].set(rows[name], at);
        at += rows.batches.length;
      }
    }
    return {...this.record, metrics, searched: this.record.searched.map((axis) => ({...axis})),
      checkpoints: {...this.record.checkpoints}, trials: this.record.trials};
  }
}

/** The list of experiments, the chosen ones, and buttons for them. */
class Live {
  constructor() {
    this.server = new Server();
    this.due = new Map();    // what is to be drawn when no pointer is pressed
    this.list = new Map();   // rows by id
    this.listed = LISTED;
    this.missing = '';       // what the reader asked for and there is not
    this.chosen = new Map();  // Experiment by id, in the order of choice
    this.message = document.getElementById('message');
    this.problem = element('p', {class: 'error', role: 'alert', id: 'problem'});
    this.body = element('tbody');
    this.search = element('input', {type: 'search', placeholder: 'find experiments',
      'aria-label': 'find experiments', oninput: () => this.drawList()});
    this.archived = element('input', {type: 'checkbox', onchange: () => this.drawList()});
    this.count = element('div', {class: 'controls fact', id: 'count'});
    this.connection = element('span', {class: 'fact', id: 'connection', role: 'status'});
    this.controls = element('div', {class: 'controls', id: 'controls'});
    document.getElementById('live').append(element('section', {class: 'card', id: 'experiments'},
        element('div', {class: 'toolbar'}, element('h2', {}, 'Experiments'), this.search,
            element('label', {}, this.archived, ' archived'), this.connection),
        this.problem, element('div', {class: 'experiments'}, element('table', {},
            element('thead', {}, element('tr', {}, ...['', 'id', 'name', 'state', 'best', 'trials',
              'time', 'labels'].map((name) => element('th', {scope: 'col'}, name)))), this.body)),
        this.count, this.controls));
    window.addEventListener('popstate', () => this.choose(this.idsOfAddress(), false));
    // Another address in the same tab, of a server that was started again.
    window.addEventListener('hashchange', (event) => {
      if (!this.server.takeToken(new URL(event.oldURL).hash.replace(/^#token=.*/, ''))) return;
      this.server.stop?.();
      this.wake?.();
    });
    const release = () => {
      this.pressed = false;
      setTimeout(() => {  // after the click
        if (this.pressed) return;
        const due = [...this.due.values()];
        this.due.clear();
        for (const draw of due) draw();
      });
    };
    window.addEventListener('pointerdown', () => { this.pressed = true; }, true);
    for (const type of ['pointerup', 'pointercancel']) window.addEventListener(type, release, true);
    window.addEventListener('blur', release);
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) for (const one of this.chosen.values()) if (one.dirty) one.changed();
    });
  }

  // Draws now, or when the pointer is released.
  whenReleased(name, draw) {
    if (this.pressed) this.due.set(name, draw);
    else draw();
  }

  idsOfAddress() {
    const text = new URLSearchParams(location.search).get('exp') || '';
    const ids = text.split(',').filter(Boolean).map(Number);
    const missing = ids.filter((id) => !this.list.has(id));
    this.missing = missing.length ? `There is no experiment ${missing.join(', ')}.` : '';
    return ids.filter((id) => this.list.has(id));
  }

  async run() {
    let wait = 500;
    for (;;) {
      try {
        this.connection.textContent = 'connecting …';
        await this.server.follow((event) => {
          wait = 500;
          this.receive(event);
        });
      } catch (error) {
        console.warn(error.message);
        if (error instanceof Refused && error.status === 401) {
          this.refused();
          await new Promise((done) => { this.wake = done; });
          continue;
        }
      }
      wait = Math.min(2 * wait, 10_000);
      this.connection.textContent = `not connected; next try in ${wait / 1000} s`;
      this.connection.classList.add('error');
      await Promise.race([sleep(wait), new Promise((done) => { this.wake = done; })]);
    }
  }

  refused() {
    this.connection.textContent = 'not connected';
    this.connection.classList.add('error');
    this.message.textContent = 'This page has no valid token. Open the address that ' +
        'dtrain serve printed; a server that was started again has a new one.';
  }

  receive(event) {
    if (this.connection.textContent !== 'live') this.connection.textContent = 'live';
    this.connection.classList.remove('error');
    this.control = event.control ?? this.control;
    if (event.problem !== undefined) this.problem.textContent = event.problem;
    if (event.all) this.list.clear();
    for (const row of event.experiments || []) this.list.set(row.id, row);
    for (const id of event.removed || []) this.list.delete(id);
    this.drawList();
    if (event.all) {
      if (this.message.textContent.startsWith('This page has no')) this.message.textContent = '';
      document.querySelector('footer').textContent = 'dtrain ' + event.dtrain +
          (event.control ? '' : ' · read-only');
      // After a pause of the connection, what is shown stays and is brought up to date.
      const before = event.store === this.store ? [...this.chosen.keys()] : [];
      this.store = event.store;
      if (!before.length) {
        for (const one of this.chosen.values()) one.closed = true;
        this.chosen.clear();
        const asked = this.idsOfAddress();
        this.choose(asked.length || this.missing ? asked : this.newest(), false);
        return;
      }
      for (const one of this.chosen.values()) one.changed();
    }
    const gone = [...this.chosen.keys()].filter((id) => !this.list.has(id));
    if (gone.length) {
      const ids = [...this.chosen.keys()].filter((id) => this.list.has(id));
      this.missing = `Experiment ${gone.join(', ')} was deleted.`;
      this.setAddress(ids, 'replaceState');
      this.choose(ids, false);
    }
    if (!this.chosen.size && !this.missing) this.choose(this.newest(), false);
    for (const id of event.changed || []) this.chosen.get(id)?.changed();
    this.drawControls();
  }

  newest() { return [...this.list.values()].filter((row) => !row.archived).slice(-1).map(({id}) => id); }

  setAddress(ids, how) {
    history[how](null, '', (ids.length ? '?exp=' + ids.join(',') : location.pathname) + location.hash);
  }

  choose(ids, remember = true) {
    for (const [id, one] of this.chosen) {
      if (ids.includes(id)) continue;
      one.closed = true;
      this.chosen.delete(id);
    }
    if (remember) {
      this.missing = '';
      this.setAddress(ids, 'pushState');
    }
    for (const id of ids) {
      if (!this.chosen.has(id)) this.open(id);
    }
    this.drawList();
    this.drawControls();
    this.show();
  }

  async open(id) {
    const one = new Experiment(this.server, id, (error) => {
      if (one.closed) return;
      if (error) this.message.textContent = error.message;
      else this.show();
    }, () => { this.message.textContent = this.status(); });
    this.chosen.set(id, one);
    try {
      await one.load();
    } catch (error) {
      if (!one.closed) this.message.textContent = error.message;
    }
  }

  show() { this.whenReleased('show', () => this.draw()); }

  // Shows what has arrived: in the same plots if their axes remain.
  draw() {
    const ready = [...this.chosen.values()].filter((one) => one.record);
    const names = ready.map((one) => `${one.id} ${one.record.name}`).join(', ');
    document.title = names ? `${names} · dtrain` : 'dtrain';
    document.querySelector('h1').textContent = names || 'dtrain';
    this.message.textContent = this.status();
    this.drawControls();
    if (!ready.length) {
      this.view?.state.stop();
      this.view = null;
      document.querySelector('main').replaceChildren();
      document.querySelector('header .toolbar')?.remove();
      return;
    }
    const bundle = {document: {fields: ready[0].fields, experiments: ready.map((one) => one.assembled())},
      column: (values) => values};
    const shape = JSON.stringify(bundle.document.experiments.map((one) =>
      [one.id, one.metrics.names, one.searched.map((axis) => axis.name)]));
    if (this.view && this.shape === shape) {
      const {data, state} = this.view;
      data.load(bundle);
      patch(document.getElementById('summary'), summary(data));
      state.refresh();
    } else {
      this.view?.state.stop();
      this.shape = shape;
      this.view = build(new Data(bundle), this.control ? (order) => this.order(order) : null);
    }
    window.dtrain = {...this.view, live: this, FilterError, matches, parseFilter};
  }

  status() {
    const parts = this.missing ? [this.missing] : [];
    const all = [...this.chosen.values()];
    const loading = all.filter((one) => one.loading);
    if (loading.length) {
      parts.push(`Loading experiment ${loading.map(({id}) => id).join(', ')} … ` +
          `${loading.reduce((sum, {rows}) => sum + rows, 0)} metric values so far.`);
    }
    const cut = all.filter((one) => one.cut).map((one) => one.id);
    if (cut.length) {
      parts.push(`Experiment ${cut.join(', ')} has more than ${MAX_ROWS} metric values; the curves ` +
          'of its later trials are not loaded.');
    }
    if (!all.length) {
      parts.push(this.list.size ? 'Choose an experiment in the list.' :
        'There is no experiment yet; dtrain create makes one.');
    }
    return parts.join(' ');
  }

  drawList() { this.whenReleased('list', () => this.drawRows()); }

  drawRows() {
    const wanted = this.search.value.toLowerCase();
    const all = [...this.list.values()].reverse();
    const rows = all.filter((row) =>
      (this.archived.checked || !row.archived || this.chosen.has(row.id)) &&
      `${row.id} ${row.name} ${row.state} ${(row.labels || []).join(' ')}`.toLowerCase()
          .includes(wanted));
    const shown = rows.slice(0, this.listed);
    patchChildren(this.body, shown.map((row) => this.rowOf(row)));
    const archived = all.filter((row) => row.archived).length;
    const more = element('button', {type: 'button', id: 'more', onclick: () => {
      this.listed += LISTED;
      this.drawList();
    }}, `Show ${Math.min(LISTED, rows.length - shown.length)} more`);
    patchChildren(this.count, [element('span', {}, `${shown.length} of ` +
        countOf(all.length, 'experiment') + (archived ? `, ${archived} archived` : '')),
    ...(rows.length > shown.length ? [more] : [])]);
  }

  rowOf(row) {
    const box = element('input', {type: 'checkbox', checked: this.chosen.has(row.id),
      'aria-label': `show experiment ${row.id}`, onchange: () => this.toggle(row.id)});
    const name = element('button', {type: 'button', class: 'key',
      onclick: () => this.choose([row.id])}, row.name);
    const best = row.best ? formatNumber(Number(row.best.value)) : '–';
    const cells = [box, String(row.id), name, row.state + (row.archived ? ', archived' : ''), best,
      `${row.trials_ended} of ${row.trials}`, formatDuration(row.duration),
      (row.labels || []).map((label) => shorten(label, 100)).join(', ')];
    return element('tr', {'data-id': row.id, 'data-key': row.id, class: this.chosen.has(row.id) ? 'chosen' : ''},
        ...cells.map((cell) => element('td', {}, cell)));
  }

  toggle(id) {
    const ids = [...this.chosen.keys()];
    this.choose(ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id]);
  }

  // Buttons for the chosen experiments.
  drawControls() {
    if (!this.control) return;
    const rows = [...this.chosen.keys()].map((id) => this.list.get(id)).filter(Boolean);
    this.whenReleased('controls', () =>
      patchChildren(this.controls, rows.map((row) => this.controlsOf(row))));
  }

  controlsOf(row) {
    const open = !FINAL.includes(row.state);
    const runs = row.state === 'RUNNING' || row.state === 'PENDING';
    const button = (action, text, question) => element('button', {type: 'button',
      'data-action': action, 'data-key': action, onclick: () => this.order({action, experiment: row.id}, question)}, text);
    const buttons = [];
    if (runs) buttons.push(button('pause', 'Pause'));
    if (open && !runs) buttons.push(button('resume', 'Resume'));
    if (open) {
      buttons.push(button('cancel', 'Cancel',
          `Cancel experiment ${row.id}? It cannot be resumed.`));
    }
    if (runs) {
      buttons.push(button('kill', 'Kill',
          `Kill experiment ${row.id}? Its trials end without a checkpoint.`));
    }
    const label = element('input', {placeholder: 'add a label', 'aria-label': 'add a label',
      'data-key': 'label', onchange: ({target}) => {
        const add = target.value;
        target.value = '';
        this.order({action: 'label', experiment: row.id, add});
      }});
    const labels = (row.labels || []).map((one) => element('button', {type: 'button',
      'data-key': 'remove ' + one, title: 'remove the label', onclick: () =>
        this.order({action: 'label', experiment: row.id, remove: one})}, shorten(one, 100) + ' ×'));
    const note = element('input', {placeholder: 'note', 'aria-label': 'note', size: 40,
      'data-key': 'note', value: this.chosen.get(row.id)?.record?.note ?? '',
      onchange: ({target}) =>
        this.order({action: 'note', experiment: row.id, text: target.value})});
    return element('div', {class: 'controls', 'data-experiment': row.id, 'data-key': row.id},
        element('strong', {}, String(row.id)), ...buttons, ...labels, label, note);
  }

  // The message is no live region: it tells of loading, too.
  answer(text) {
    this.message.textContent = document.getElementById('spoken').textContent = text;
  }

  async order(order, question) {
    if (question && !confirm(question)) return;
    try {
      this.message.textContent = '';
      await this.server.control(order);
      this.answer(`Requested: ${order.action} ${order.experiment}${order.trial ? '.' + order.trial : ''}.`);
    } catch (error) {
      this.answer(error.message);
    }
  }
}

new Live().run();
