// The processor time of a test, which other work on the machine does not lengthen as it does the time on the clock.

declare const process: { threadCpuUsage(): { user: number; system: number } };

/** Milliseconds of processor time that this thread has used. */
export function cpuTime(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
