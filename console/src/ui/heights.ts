// The heights of the rows of a list, and their sums: a Fenwick tree, so that a row among 100,000 is found and measured in
// a few steps. Rows that were never seen have the estimated height.

export class Heights {
  private sums = new Float64Array(1);
  private heights = new Float64Array(0);
  private count = 0;

  constructor(readonly estimate: number) {}

  get length(): number {
    return this.count;
  }

  /** The height of all rows. */
  get total(): number {
    return this.offset(this.count);
  }

  /** Change the number of rows: new ones come at the end, and the last ones are forgotten. */
  resize(count: number): void {
    if (count > this.heights.length) {
      const heights = new Float64Array(Math.max(64, count, this.heights.length * 2));
      heights.set(this.heights.subarray(0, this.count));
      this.heights = heights;
    }
    if (count > this.count) this.heights.fill(this.estimate, this.count, count);
    this.count = count;
    this.rebuild();
  }

  private rebuild(): void {
    const sums = new Float64Array(this.count + 1);
    for (let index = 1; index <= this.count; index++) {
      sums[index]! += this.heights[index - 1]!;
      const parent = index + (index & -index);
      if (parent <= this.count) sums[parent]! += sums[index]!;
    }
    this.sums = sums;
  }

  /** Rows were added before the first: the known heights move down. */
  prepend(added: number): void {
    const known = this.heights.slice(0, this.count);
    this.resize(this.count + added);
    this.heights.fill(this.estimate, 0, added);
    this.heights.set(known, added);
    this.rebuild();
  }

  /** Set the height of a row; returns by how much it changed. */
  set(row: number, height: number): number {
    const change = height - this.heights[row]!;
    if (change === 0) return 0;
    this.heights[row] = height;
    for (let index = row + 1; index <= this.count; index += index & -index) this.sums[index]! += change;
    return change;
  }

  get(row: number): number {
    return this.heights[row]!;
  }

  /** Where a row begins: the height of all rows before it. */
  offset(row: number): number {
    let sum = 0;
    for (let index = Math.min(row, this.count); index > 0; index -= index & -index) sum += this.sums[index]!;
    return sum;
  }

  /** The row at an offset; the last row for what is below all. */
  rowAt(offset: number): number {
    let row = 0;
    let rest = Math.max(0, offset);
    let step = 1;
    while (step * 2 <= this.count) step *= 2;
    for (; step > 0; step >>= 1) {
      const next = row + step;
      if (next <= this.count && this.sums[next]! <= rest) {
        row = next;
        rest -= this.sums[next]!;
      }
    }
    return Math.min(row, Math.max(0, this.count - 1));
  }

  /** The rows that a window shows, with some more on both sides: [first, end). */
  window(top: number, height: number, more: number): [first: number, end: number] {
    if (!this.count) return [0, 0];
    const first = Math.max(0, this.rowAt(top) - more);
    const end = Math.min(this.count, this.rowAt(top + height) + 1 + more);
    return [first, end];
  }
}
