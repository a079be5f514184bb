// Loading something for a component: the newest request counts, and a component that goes away cancels it.

import { useCallback, useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/http.ts";

export interface Loaded<Value> {
  /** The last value, also while another is loaded. */
  value: Value | undefined;
  error: unknown;
  isLoading: boolean;
  reload: () => void;
  /** Replace the value, for what is known without asking the server. */
  set: (value: Value) => void;
}

/** Load when the component appears and when `inputs` change. */
export function useLoad<Value>(load: (signal: AbortSignal) => Promise<Value>, inputs: readonly unknown[]): Loaded<Value> {
  const [state, setState] = useState<{ value?: Value; error: unknown; isLoading: boolean }>({ error: null, isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    load(abort.signal).then(
      (value) => abort.signal.aborted || setState({ value, error: null, isLoading: false }),
      (error: unknown) => {
        if (!abort.signal.aborted && !isAbort(error)) setState((before) => ({ ...before, error, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [...inputs, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const set = useCallback((value: Value) => setState({ value, error: null, isLoading: false }), []);
  return { value: state.value, error: state.error, isLoading: state.isLoading, reload, set };
}
