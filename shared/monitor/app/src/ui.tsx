// Small parts that several views have in common.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { nextStep, Refusal } from "./api";
import type { Live } from "./live";
import { to } from "./route";
import { useVirtual } from "./virtual";

export const time = (text: string | null | undefined): string => (text ? new Date(text).toLocaleString() : "");
export const clock = (text: string): string => new Date(text).toLocaleTimeString();
export const name = (w: { package: string; name: string; version: string }): string => `${w.package}/${w.name}:${w.version}`;

/** duration is the time between two times, or until now. */
export function duration(from: string | null | undefined, until?: string | null): string {
  if (!from) return "";
  const ms = Math.max(0, (until ? Date.parse(until) : Date.now()) - Date.parse(from));
  if (ms < 1_000) return `${ms} ms`;
  const s = Math.floor(ms / 1_000);
  if (s < 60) return `${(ms / 1_000).toFixed(1)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}

/** Word shows a state or an outcome with its colour. */
export function Word({ children }: { children: string | null | undefined }): VNode {
  if (!children) return <span />;
  return <span class={`word ${tone(children)}`}>{children}</span>;
}

/** tone says whether a state is good, bad, in doubt, at work or neither. */
export function tone(word: string): string {
  if (/UNSAFE|UNKNOWN|OFFLINE/.test(word)) return "unsafe";
  if (/FAILED|ERROR|LEFT|PARTIAL|UNREACHABLE/.test(word)) return "failed";
  if (/COMPLETED|SUCCEEDED|PROBED|^OK$|ACTIVE|ONLINE|CASE_HANDLED/.test(word)) return "good";
  if (/RUNNING|CLAIMED|ROLLBACK|CANCELLING|LOCKING/.test(word)) return "busy";
  return "calm";
}

export function ExecutionLink({ id }: { id: string | null | undefined }): VNode {
  return id ? <a href={to(["executions", id])} class="id">{id}</a> : <span />;
}

/** EntityLink links to an entity given as type/id. */
export function EntityLink({ path }: { path: string | null | undefined }): VNode {
  if (!path) return <span />;
  const cut = path.indexOf("/");
  return <a href={to(["entities", path.slice(0, cut), path.slice(cut + 1)])}>{path}</a>;
}

/** ProblemText shows why something could not be done, each place that is wrong, and what to do next. */
export function ProblemText({ error, next }: { error: unknown; next?: string }): VNode | null {
  if (!error) return null;
  const problem = error instanceof Refusal ? error.problem : undefined;
  return (
    <div class="problem" role="alert">
      <p><strong>{problem?.title ?? "Not reachable"}</strong> {error instanceof Error ? error.message : String(error)}</p>
      {problem?.errors?.length ? (
        <ul>{problem.errors.map((e) => <li>{e.line ? `line ${e.line}${e.column ? `, column ${e.column}` : ""}: ` : ""}{e.path ? <code>{e.path}</code> : null} {e.message}</li>)}</ul>
      ) : null}
      <p>{next ?? nextStep(error)}{problem?.requestId ? <small> Request {problem.requestId}.</small> : null}</p>
    </div>
  );
}

/** Loaded shows what was read, or that it is being read, or why it could not be. */
export function Loaded<T>({ live, children }: { live: Live<T>; children: (data: T) => ComponentChildren }): VNode {
  return (
    <>
      <ProblemText error={live.error} />
      {live.data !== undefined ? children(live.data) : live.error ? null : <p class="calm" role="status">Loading</p>}
    </>
  );
}

/** Value shows any JSON value as text. */
export function Value({ value, label }: { value: unknown; label: string }): VNode | null {
  if (value === null || value === undefined) return null;
  return <pre tabIndex={0} aria-label={label} role="region">{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>;
}

/** Bar shows progress: what is done, what has failed. */
export function Bar({ total, done, failed }: { total: number; done: number; failed: number }): VNode {
  const share = (n: number) => (total > 0 ? (100 * n) / total : 0);
  return (
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={`${done} of ${total} jobs completed, ${failed} failed`}>
      <rect class="bar-all" width="100" height="8" />
      <rect class="bar-done" width={share(done)} height="8" />
      <rect class="bar-failed" x={share(done)} width={share(failed)} height="8" />
    </svg>
  );
}

export interface Column<T> {
  title: string;
  number?: boolean;
  /** sort has the list the other way round. */
  sort?: () => void;
  sorted?: "ascending" | "descending";
  cell: (row: T) => ComponentChildren;
}

/** Table is a plain table with a caption for those who do not see it. */
export function Table<T>({ caption, columns, rows, empty }: { caption: string; columns: Column<T>[]; rows: T[]; empty: string }): VNode {
  if (rows.length === 0) return <p class="calm">{empty}</p>;
  return (
    <div class="wide" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead><tr>{columns.map((c) => <th scope="col" class={c.number ? "number" : ""} aria-sort={c.sorted}>{c.sort ? <button type="button" class="sort" onClick={c.sort}>{c.title} {c.sorted === "ascending" ? "↑" : "↓"}</button> : c.title}</th>)}</tr></thead>
        <tbody>{rows.map((r) => <tr>{columns.map((c) => <td class={c.number ? "number" : ""}>{c.cell(r)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

/** VirtualTable is a table of any length, of which only the rows that are seen are in the page. Its kind sets the widths of its columns. */
export function VirtualTable<T>({ caption, kind, columns, rows, empty, chosen }: { caption: string; kind: string; columns: Column<T>[]; rows: T[]; empty: string; chosen?: (row: T) => boolean }): VNode {
  const { ref, list } = useVirtual(rows.length, 34);
  if (rows.length === 0) return <p class="calm">{empty}</p>;
  return (
    <div class="virtual" ref={ref} tabIndex={0} role="table" aria-label={caption} aria-rowcount={rows.length + 1}>
      <div role="row" aria-rowindex={1} class={`row head ${kind}`}>{columns.map((c) => <span role="columnheader">{c.title}</span>)}</div>
      <div class="virtual-all" role="rowgroup" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((item) => {
          const row = rows[item.index]!;
          return (
            <div role="row" aria-rowindex={item.index + 2} class={`row ${kind} ${chosen?.(row) ? "chosen" : ""}`} key={item.key} style={{ transform: `translateY(${item.start}px)` }}>
              {columns.map((c) => <span role="cell">{c.cell(row)}</span>)}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** Field is an input with its label. */
export function Field({ label, value, onChange, type, options, none = "any", words = {}, hint, required, name: field }: {
  label: string; value: string; onChange: (value: string) => void; type?: "datetime-local" | "number"; options?: readonly string[]; none?: string; words?: Record<string, string>; hint?: string; required?: boolean; name?: string;
}): VNode {
  const id = useId();
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {options ? (
        <select id={id} name={field} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
          {options.map((o) => <option value={o}>{words[o] ?? (o || none)}</option>)}
        </select>
      ) : (
        <input id={id} name={field} type={(type ?? "text") as "text"} value={typed} placeholder={hint} required={required} autocomplete="off"
          onInput={(e) => setTyped(e.currentTarget.value)} onChange={(e) => onChange(e.currentTarget.value)} />
      )}
    </div>
  );
}

/** Dialog is shown above the page until it is closed. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }): VNode {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => ref.current?.showModal(), []);
  return (
    <dialog ref={ref} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/** Pages leads to the first and the next page of a list. */
export function Pages({ path, query, next }: { path: string[]; query: Record<string, string | undefined>; next: string | null }): VNode | null {
  if (!next && !query.page) return null;
  return (
    <nav aria-label="Pages" class="pages">
      {query.page ? <a href={to(path, { ...query, page: undefined })}>first page</a> : null}
      {next ? <a href={to(path, { ...query, page: next })}>next page</a> : null}
    </nav>
  );
}
