// What the page shows is read again and again: soon after a change, less often while nothing
// changes, and not at all while nobody looks.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

const soonest = 2_000;
const latest = 30_000;

export interface Live<T> {
  data?: T;
  error?: unknown;
  /** asOf is when it was read last. */
  asOf?: Date;
  reload: () => void;
}

/** textOf is what is compared. The time of a reading is no change. */
const textOf = (data: unknown): string => JSON.stringify(data, (name, value: unknown) => (name === "asOf" ? undefined : value));

/**
 * useLive reads by key until the component is gone, and at once when the stamp changes. Another
 * key begins anew. What is over is read once for each stamp.
 */
export function useLive<T>(key: string, read: (signal: AbortSignal) => Promise<T>, stamp: unknown = 0, over = false): Live<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: unknown; asOf?: Date }>({ key });
  const wake = useRef<() => void>(() => {});
  const current = useRef(read);
  current.current = read;
  const resting = useRef(over);
  resting.current = over;

  useEffect(() => {
    const ended = new AbortController();
    let timer = 0;
    let pause = soonest;
    let before = "";
    let reading = false;
    let again = false;
    let failed = false;
    const once = async (): Promise<void> => {
      clearTimeout(timer);
      if (reading) {
        again = true;
        return;
      }
      reading = true;
      const began = performance.now();
      try {
        const data = await current.current(ended.signal);
        if (ended.signal.aborted) return;
        const text = textOf(data);
        failed = false;
        pause = text === before ? Math.min(pause * 1.5, latest) : soonest;
        setState((s) => ({ key, data: text === before && s.key === key ? s.data : data, asOf: new Date() }));
        before = text;
      } catch (error) {
        if (ended.signal.aborted) return;
        failed = true;
        pause = Math.min(pause * 2, latest);
        setState((s) => ({ key, data: s.key === key ? s.data : undefined, asOf: s.key === key ? s.asOf : undefined, error }));
      } finally {
        reading = false;
      }
      // What takes long is read less often.
      const took = performance.now() - began;
      if (again) {
        again = false;
        pause = soonest;
        void once();
      } else if (!document.hidden && (failed || !resting.current)) {
        timer = window.setTimeout(once, Math.max(pause, 5 * took));
      }
    };
    const seen = () => {
      if (document.hidden) clearTimeout(timer);
      else if (failed || before === "" || !resting.current) void once();
    };
    wake.current = () => void once();
    document.addEventListener("visibilitychange", seen);
    void once();
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key]);

  const stamped = useRef(stamp);
  useEffect(() => {
    if (stamped.current !== stamp) wake.current();
    stamped.current = stamp;
  }, [stamp]);

  const reload = useCallback(() => wake.current(), []);
  return state.key === key ? { ...state, reload } : { reload };
}
