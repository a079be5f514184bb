// Small bar charts as SVG. What they show is also in a table or in text: they are pictures for those who see.

export interface Bar {
  name: string;
  value: number;
  /** The value in words. */
  text: string;
}

const HEIGHT = 96;
const GAP = 1;

/** Upright bars, one for each day. */
export function BarChart({ bars, label }: { bars: readonly Bar[]; label: string }) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  const width = bars.length * 10;
  return (
    <figure class="bars">
      <svg viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {bars.map((bar, index) => {
          const height = most ? (bar.value / most) * (HEIGHT - 2) : 0;
          return (
            <rect
              key={bar.name} class={bar.value ? "bar" : "bar bar-none"} x={index * 10 + GAP} width={10 - 2 * GAP}
              y={HEIGHT - Math.max(height, 1)} height={Math.max(height, 1)}
            >
              <title>{`${bar.name}: ${bar.text}`}</title>
            </rect>
          );
        })}
      </svg>
      <figcaption><span>{bars[0]?.name}</span><span>{bars.at(-1)?.name}</span></figcaption>
    </figure>
  );
}

/** How much of something is used, as a bar that lies, with what is reserved after it; `isLimit` marks a full one. */
export function ShareBar({ used, reserved = 0, limit, text, isLimit }: { used: number; reserved?: number; limit: number; text: string; isLimit?: boolean }) {
  const percent = (value: number) => (limit > 0 ? Math.min(100, (100 * value) / limit) : 100);
  const end = percent(used + reserved);
  return (
    <svg class={isLimit && used + reserved >= limit ? "share share-full" : "share"} viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={text}>
      <rect class="share-back" width="100" height="6" />
      <rect class="share-reserved" width={end} height="6" />
      <rect class="share-used" width={percent(used)} height="6" />
    </svg>
  );
}
