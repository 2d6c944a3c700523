// Only the rows that are seen are in the page.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";

export function useVirtual(count: number, rowHeight: number): { ref: { current: HTMLDivElement | null }; list: Virtualizer<HTMLDivElement, Element> } {
  const ref = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const options = {
    count,
    getScrollElement: () => ref.current,
    estimateSize: () => rowHeight,
    overscan: 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(undefined),
  };
  const list = useRef<Virtualizer<HTMLDivElement, Element> | null>(null);
  list.current ??= new Virtualizer<HTMLDivElement, Element>(options);
  list.current.setOptions(options);
  useLayoutEffect(() => list.current!._didMount(), []);
  useLayoutEffect(() => list.current!._willUpdate());
  return { ref, list: list.current };
}
