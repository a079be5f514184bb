// Numbers, times and amounts of money as the operate page writes them; sizes and durations are in text/safe.ts.

/** An amount of money, with enough digits for the price of a few tokens. */
export function formatMoney(value: number | string, currency: string): string {
  const amount = Number(value);
  if (!Number.isFinite(amount)) return "";
  const isSmall = amount !== 0 && Math.abs(amount) < 1;
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: isSmall ? 6 : 2 };
  return `${amount.toLocaleString("en-US", digits)} ${currency}`;
}

/** A moment in the reader's time zone: 2026-11-18 06:30:00. */
export function formatTime(milliseconds: number): string {
  if (!Number.isFinite(milliseconds)) return "";
  const date = new Date(milliseconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
