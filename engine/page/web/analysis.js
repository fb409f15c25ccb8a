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

/**
 * Limits of an axis without outliers, or null if none would flatten it: values
 * beyond three interquartile ranges from the quartiles (Tukey, 1977), if the
 * others would fill less than a third of the axis. `lows` and `highs` are the
 * extremes of each curve, or both the values of points: {low, high, below,
 * above}, with the numbers of those outside.
 */
export function robustRange(lows, highs = lows) {
  const sorted = (values) => Float64Array.from(values).filter(Number.isFinite).sort();
  const [l, h] = [sorted(lows), sorted(highs)];
  if (l.length < 5 || h.length < 5) return null;
  const quartiles = (all) => [1, 3].map((n) => all[Math.floor(n * (all.length - 1) / 4)]);
  const [l1, l3] = quartiles(l);
  const [h1, h3] = quartiles(h);
  const lowest = l.find((value) => value >= l1 - 3 * (l3 - l1));
  const highest = h.findLast((value) => value <= h3 + 3 * (h3 - h1));
  if (!(highest > lowest) || h[h.length - 1] - l[0] <= 3 * (highest - lowest)) return null;
  const margin = 0.03 * (highest - lowest);
  const [low, high] = [lowest - margin, highest + margin];
  return {low, high, below: l.filter((value) => value < low).length,
    above: h.filter((value) => value > high).length};
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
 * Trials by completed rung: {reached, went_on, completed, ended, open}; [0]
 * counts all. `rungs` has the number that each trial completed, `ends` what it
 * did after the last: 'completed' all that it was to train, 'ended' or 'open'.
 */
export function countRungs(rungs, ends) {
  const counts = [];
  const countOf = (i) => (counts[i] ||= {reached: 0, went_on: 0, completed: 0, ended: 0, open: 0});
  countOf(0);
  rungs.forEach((last, trial) => {
    for (let i = 0; i <= last; ++i) {
      ++countOf(i).reached;
      ++counts[i][i < last ? 'went_on' : ends[trial]];
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
 * Mean and standard deviation of several curves {x(i), values}, at the places of
 * their points or at 200 even ones if there are more: [x, mean, deviation, count]
 * of those that have a finite value there, with straight lines between their
 * points. Places that only one curve reaches are left out. Ascending x.
 */
export function meanBand(curves) {
  const MAX_PLACES = 200;
  const all = new Set();
  for (const {x, values} of curves) {
    for (let i = 0; i < values.length; ++i) if (Number.isFinite(x(i))) all.add(x(i));
  }
  let places = Float64Array.from(all).sort();
  if (places.length > MAX_PLACES) {
    const low = places[0];
    const step = (places[places.length - 1] - low) / (MAX_PLACES - 1);
    places = Float64Array.from({length: MAX_PLACES}, (_, i) => low + i * step);
  }
  // By Welford's method, curve by curve.
  const band = Array.from(places, (place) => [place, 0, 0, 0]);
  for (const {x, values} of curves) {
    let after = 0;  // the first point behind the place
    for (const point of band) {
      while (after < values.length && x(after) <= point[0]) ++after;
      if (after === 0) continue;
      const left = x(after - 1);
      if (left !== point[0] && after === values.length) break;
      const value = left === point[0] ? values[after - 1] : values[after - 1] +
          (point[0] - left) / (x(after) - left) * (values[after] - values[after - 1]);
      if (!Number.isFinite(value)) continue;
      const before = value - point[1];
      point[1] += before / ++point[3];
      point[2] += before * (value - point[1]);
    }
  }
  for (const point of band) point[2] = Math.sqrt(point[2] / (point[3] - 1));
  return band.filter(([, , , count]) => count > 1);
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
