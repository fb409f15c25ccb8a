// Numbers of the plots, as functions of values alone. They are those of
// engine/analysis; the page computes them again because a filter changes them,
// and page_test.py compares the two.

/** Ranks from 1 for the smallest; equal values share the mean. No value is NaN. */
export function ranksOf(values) {
  const order = Array.from(values, (_, i) => i).sort((a, b) => values[a] - values[b] || a - b);
  const ranks = new Float64Array(values.length);
  for (let begin = 0, end = 0; begin < order.length; begin = end) {
    while (end < order.length && values[order[end]] === values[order[begin]]) ++end;
    for (let i = begin; i < end; ++i) ranks[order[i]] = (begin + 1 + end) / 2;
  }
  return ranks;
}

/** For each distinct value, ascending: [value, share of values that are at most as large]. */
export function distributionOf(values) {
  const sorted = Float64Array.from(values).filter((value) => !Number.isNaN(value)).sort();
  const points = [];
  sorted.forEach((value, i) => {
    if (sorted[i + 1] !== value) points.push([value, (i + 1) / sorted.length]);
  });
  return points;
}

/**
 * Effort of the search at each observation {trials, batches, epochs, seconds},
 * columns in the order of time: 'trials' that have reported, 'batches' or
 * 'epochs' of all trials together, or 'seconds'.
 */
export function effortsOf(observations, effort) {
  const {trials, seconds} = observations;
  if (effort === 'seconds') return seconds;
  const efforts = new Float64Array(trials.length);
  const latest = new Map();
  const trained = effort === 'trials' ? null : observations[effort];
  let sum = 0;
  for (let i = 0; i < trials.length; ++i) {
    const last = latest.get(trials[i]);
    const done = trained ? trained[i] : 0;
    if (last === undefined || done > last) {
      sum += Math.max(done - (last ?? 0), 0);
      latest.set(trials[i], Math.max(done, 0));
    }
    efforts[i] = trained ? sum : latest.size;
  }
  return efforts;
}

/**
 * The best value so far: [effort, value] for each improvement, and one at the full
 * effort. Values that are not finite are never best.
 */
export function bestSoFar(efforts, values, smaller) {
  const curve = [];
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    const last = curve[curve.length - 1];
    if (!Number.isFinite(value) || (last && !(smaller ? value < last[1] : value > last[1]))) continue;
    if (last && last[0] === efforts[i]) curve.pop();
    curve.push([efforts[i], value]);
  }
  const last = curve[curve.length - 1];
  const full = efforts[efforts.length - 1];
  if (last && last[0] < full) curve.push([full, last[1]]);
  return curve;
}

/** Indices of the points [x, y] that no other point dominates, both minimized, by x. */
export function paretoFront(points) {
  const order = points.map((_, i) => i)
      .sort((a, b) => points[a][0] - points[b][0] || points[a][1] - points[b][1]);
  const front = [];
  let best = Infinity;
  let last = null;
  for (const i of order) {
    const equal = last && points[i][0] === last[0] && points[i][1] === last[1];
    if (points[i][1] < best || equal) {
      front.push(i);
      best = points[i][1];
      last = points[i];
    }
  }
  return front;
}

/**
 * Trials by completed rung: {reached, went_on, ended, open}; [0] counts all.
 * `completed` has a number of rungs for each trial, `ended` says whether it ended.
 */
export function countRungs(completed, ended) {
  const counts = [{reached: 0, went_on: 0, ended: 0, open: 0}];
  completed.forEach((rungs, trial) => {
    while (counts.length <= rungs) counts.push({reached: 0, went_on: 0, ended: 0, open: 0});
    for (let i = 0; i <= rungs; ++i) {
      ++counts[i].reached;
      ++counts[i][i < rungs ? 'went_on' : ended[trial] ? 'ended' : 'open'];
    }
  });
  return counts;
}

/**
 * Estimates a field in the middle of each cell of the unit square, rows from the
 * bottom: the mean of the samples [x, y, value] weighted by the inverse square of
 * their distances (Shepard, 1968); NaN where none is near. A sample says nothing
 * about other cells of an axis of names.
 */
export function estimateField(samples, columns, rows, byNameX = false, byNameY = false) {
  const REACH = 0.15;
  const NEAR = 0.05;
  const cellOf = (place, cells) => Math.min(cells - 1, Math.max(0, Math.floor(place * cells)));
  const field = new Float64Array(columns * rows).fill(NaN);
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const [cx, cy] = [(column + 0.5) / columns, (row + 0.5) / rows];
      let sum = 0;
      let weights = 0;
      let nearest = Infinity;
      for (const [x, y, value] of samples) {
        if (byNameX && cellOf(x, columns) !== column) continue;
        if (byNameY && cellOf(y, rows) !== row) continue;
        const dx = byNameX ? 0 : x - cx;
        const dy = byNameY ? 0 : y - cy;
        const squared = dx * dx + dy * dy;
        nearest = Math.min(nearest, squared);
        const weight = 1 / Math.max(squared, NEAR * NEAR);
        sum += weight * value;
        weights += weight;
      }
      if (nearest < REACH * REACH) field[row * columns + column] = sum / weights;
    }
  }
  return field;
}

/**
 * Exponential moving average without a bias to 0 (Kingma and Ba, 2015); values
 * that are not finite stay and do not count.
 */
export function smoothed(values, weight) {
  const result = new Float64Array(values.length);
  let sum = 0;
  let weights = 0;
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    if (Number.isFinite(value)) {
      sum = weight * sum + (1 - weight) * value;
      weights = weight * weights + (1 - weight);
    }
    result[i] = Number.isFinite(value) ? sum / weights : value;
  }
  return result;
}

/**
 * Indices of the points that draw a curve as all do: those of [0, n) if they are
 * few, else the first, lowest, highest and last of each of `columns` equal parts
 * of the range of x. Ascending x.
 */
export function decimatedPoints(x, y, columns, begin = 0, end = y.length) {
  let points = Array.from({length: end - begin}, (_, i) => begin + i);
  if (points.length <= 4 * columns) return points;
  points = points.filter((i) => Number.isFinite(x(i)) && Number.isFinite(y[i]));
  if (points.length <= 4 * columns) return points;
  const low = x(points[0]);
  const width = x(points[points.length - 1]) - low;
  const columnOf = (i) =>
    (width > 0 ? Math.min(Math.trunc((x(i) - low) / width * columns), columns - 1) : 0);
  const kept = [];
  for (let from = 0, to = 0; from < points.length; from = to) {
    const column = columnOf(points[from]);
    let [lowest, highest] = [points[from], points[from]];
    for (; to < points.length && columnOf(points[to]) === column; ++to) {
      if (y[points[to]] < y[lowest]) lowest = points[to];
      if (y[points[to]] >= y[highest]) highest = points[to];
    }
    kept.push(...[...new Set([points[from], lowest, highest, points[to - 1]])].sort((a, b) => a - b));
  }
  return kept;
}
