// Differences of two sequences, bounded: exact for what differs little, coarser for what differs a lot.
//
// First equal beginnings and ends are taken off. Then Myers' algorithm runs up to a number of edits. If there are more,
// values that occur once on each side serve as anchors, and what lies between two anchors is one block that differs.

/** A run of equal values, or values of the left replaced by values of the right. Ends are exclusive. */
export interface Block {
  isEqual: boolean;
  left: number;
  leftEnd: number;
  right: number;
  rightEnd: number;
}

const MAX_EDITS = 800;

/** The blocks of two sequences, in order; equal and different ones alternate. */
export function diff<T>(left: readonly T[], right: readonly T[], maxEdits = MAX_EDITS): Block[] {
  const [a, b] = numbered(left, right);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let tail = 0;
  while (tail < a.length - start && tail < b.length - start && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const middleA = a.subarray(start, a.length - tail);
  const middleB = b.subarray(start, b.length - tail);
  const pairs = shortest(middleA, middleB, maxEdits) ?? anchored(middleA, middleB);
  const equal: [number, number, number][] = [];
  if (start > 0) equal.push([0, 0, start]);
  for (const [x, y, length] of pairs) equal.push([x + start, y + start, length]);
  if (tail > 0) equal.push([a.length - tail, b.length - tail, tail]);
  return blocksOf(equal, a.length, b.length);
}

/** Values as small numbers, equal ones alike. */
function numbered<T>(left: readonly T[], right: readonly T[]): [Int32Array, Int32Array] {
  const numbers = new Map<T, number>();
  const number = (value: T): number => {
    const known = numbers.get(value);
    if (known !== undefined) return known;
    numbers.set(value, numbers.size);
    return numbers.size - 1;
  };
  return [Int32Array.from(left, number), Int32Array.from(right, number)];
}

type Run = [left: number, right: number, length: number];

/** The runs of equal values of a shortest edit script; null if it has more than `maxEdits` edits. */
function shortest(a: Int32Array, b: Int32Array, maxEdits: number): Run[] | null {
  if (a.length === 0 || b.length === 0) return [];
  const most = Math.min(maxEdits, a.length + b.length);
  const furthest = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    // Only the diagonals in use are kept: all of them would take the square of the bound from the start.
    trace.push(furthest.slice(most + 1 - edits - 1, most + 1 + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const at = most + 1 + k;
      const down = k === -edits || (k !== edits && furthest[at - 1]! < furthest[at + 1]!);
      let x = down ? furthest[at + 1]! : furthest[at - 1]! + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      furthest[at] = x;
      if (x >= a.length && y >= b.length) return walkBack(trace, a.length, b.length);
    }
  }
  return null;
}

function walkBack(trace: Int32Array[], lengthA: number, lengthB: number): Run[] {
  const runs: Run[] = [];
  let x = lengthA;
  let y = lengthB;
  for (let edits = trace.length - 1; edits >= 0 && (x > 0 || y > 0); edits--) {
    const before = trace[edits]!;
    const middle = edits + 1;
    const k = x - y;
    const down = k === -edits || (k !== edits && before[middle + k - 1]! < before[middle + k + 1]!);
    const previousK = down ? k + 1 : k - 1;
    const previousX = edits === 0 ? 0 : before[middle + previousK]!;
    const previousY = edits === 0 ? 0 : previousX - previousK;
    const fromX = edits === 0 ? 0 : down ? previousX : previousX + 1;
    if (x > fromX) runs.push([fromX, y - (x - fromX), x - fromX]);
    x = previousX;
    y = previousY;
  }
  return runs.reverse();
}

/** Runs of equal values around anchors: values that occur once on each side, in the same order. */
function anchored(a: Int32Array, b: Int32Array): Run[] {
  const once = onlyOnce(a);
  const onceB = onlyOnce(b);
  const pairs: [number, number][] = [];
  for (const [value, x] of once) {
    const y = onceB.get(value);
    if (y !== undefined) pairs.push([x, y]);
  }
  const runs: Run[] = [];
  let endA = 0;
  let endB = 0;
  for (const [anchorA, anchorB] of rising(pairs)) {
    if (anchorA < endA || anchorB < endB) continue;
    let x = anchorA;
    let y = anchorB;
    while (x > endA && y > endB && a[x - 1] === b[y - 1]) {
      x--;
      y--;
    }
    let length = anchorA - x + 1;
    while (x + length < a.length && y + length < b.length && a[x + length] === b[y + length]) length++;
    runs.push([x, y, length]);
    endA = x + length;
    endB = y + length;
  }
  return runs;
}

function onlyOnce(values: Int32Array): Map<number, number> {
  const found = new Map<number, number>();
  values.forEach((value, index) => found.set(value, found.has(value) ? -1 : index));
  for (const [value, index] of found) if (index === -1) found.delete(value);
  return found;
}

/** The longest sequence of pairs that rises on both sides. Pairs come in order of their left number. */
function rising(pairs: [number, number][]): [number, number][] {
  const tails: number[] = [];
  const before: number[] = [];
  pairs.forEach(([, y], index) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tails[middle]!]![1] < y) low = middle + 1;
      else high = middle;
    }
    before[index] = low > 0 ? tails[low - 1]! : -1;
    tails[low] = index;
  });
  const longest: [number, number][] = [];
  for (let index = tails.at(-1) ?? -1; index >= 0; index = before[index]!) longest.push(pairs[index]!);
  return longest.reverse();
}

function blocksOf(equal: Run[], lengthA: number, lengthB: number): Block[] {
  const blocks: Block[] = [];
  let x = 0;
  let y = 0;
  for (const [left, right, length] of [...equal, [lengthA, lengthB, 0] satisfies Run]) {
    if (left > x || right > y) blocks.push({ isEqual: false, left: x, leftEnd: left, right: y, rightEnd: right });
    if (length > 0) {
      const last = blocks.at(-1);
      if (last?.isEqual) {
        last.leftEnd += length;
        last.rightEnd += length;
      } else {
        blocks.push({ isEqual: true, left, leftEnd: left + length, right, rightEnd: right + length });
      }
    }
    x = left + length;
    y = right + length;
  }
  return blocks;
}
