// The service as its OpenAPI document describes it: paths, parameters and answers are typed by it.
import { useRef } from "preact/hooks";
import type { components, paths } from "./api.gen";

export type Schemas = components["schemas"];
export type Execution = Schemas["Execution"];
export type Job = Schemas["Job"];
export type Problem = Schemas["Problem"];

type Json<R> = R extends { content: { "application/json": infer T } } ? T : never;
type Answers<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never;
type GetPath = { [P in keyof paths]: paths[P] extends { get: { responses: unknown } } ? P : never }[keyof paths];
type PostPath = { [P in keyof paths]: paths[P] extends { post: { responses: unknown } } ? P : never }[keyof paths];
type Path<O> = O extends { parameters: { path: infer T } } ? T : undefined;
type Query<O> = O extends { parameters: { query?: infer T } } ? T : undefined;
type Body<O> = O extends { requestBody?: infer B } ? Json<NonNullable<B>> : never;

export type Items<P extends GetPath> = Answers<paths[P]["get"]> extends { items: (infer T)[] } ? T : never;

/** Refusal is what the service answered in place of what was asked for. */
export class Refusal extends Error {
  constructor(readonly status: number, readonly problem: Partial<Problem>) {
    super(problem.detail || problem.title || `the service answered ${status}`);
  }
}

/** next says what to do about an error. */
export function nextStep(error: unknown): string {
  if (!(error instanceof Refusal)) return "The service cannot be reached. This page tries again by itself.";
  switch (error.problem.code ?? error.status) {
    case "unauthorized": return "Log in again, or open this page with `lockstep page`.";
    case "forbidden": return "Ask for the role that the message names, or let somebody do this who has it.";
    case "not_found": return "Check the address. What has ended is removed after its retention.";
    case "conflict": case "illegal_transition": return "It has changed since this page read it. Look at its state, then try again.";
    case "invalid": return "Correct what is listed, then send it again.";
    case "unavailable": case "internal": return "Try again in some seconds. The log has more under the request's id.";
    case "limit": case "too_large": return "Ask for less at once.";
    case 405: return "`lockstep page` only reads. Use the command line for what changes something.";
    default: return "Read the message, then try again.";
  }
}

function address(path: string, params?: object, query?: object): string {
  let url = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String((params as Record<string, unknown>)?.[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") search.append(name, String(one));
    }
  }
  if (search.size > 0) url += `?${search}`;
  return url;
}

/** known are the last answers that have a tag, by address: what has not changed is not sent again. */
const known = new Map<string, { tag: string; body: unknown }>();
const mostKnown = 50;

async function send(url: string, options: RequestInit): Promise<unknown> {
  const before = options.method ? undefined : known.get(url);
  const conditional: Record<string, string> = before ? { "if-none-match": before.tag } : {};
  const reply = await fetch(url, { ...options, headers: { accept: "application/json, application/problem+json", ...conditional, ...options.headers } });
  if (reply.status === 304 && before) return before.body;
  const text = await reply.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = { detail: text.slice(0, 500) };
  }
  if (!reply.ok) throw new Refusal(reply.status, body as Partial<Problem>);
  const tag = reply.headers.get("etag");
  if (!options.method && tag) {
    known.delete(url); // the newest is the last
    known.set(url, { tag, body });
    if (known.size > mostKnown) known.delete(known.keys().next().value as string);
  }
  return body;
}

/** get reads one resource. */
export function get<P extends GetPath>(path: P, params?: Path<paths[P]["get"]>, query?: Query<paths[P]["get"]>, signal?: AbortSignal): Promise<Answers<paths[P]["get"]>> {
  return send(address(path, params as object, query as object), { signal }) as Promise<Answers<paths[P]["get"]>>;
}

/** post sends a command. A key makes it one command however often it is sent. */
export function post<P extends PostPath>(path: P, params: Path<paths[P]["post"]>, body: Body<paths[P]["post"]>, key?: string): Promise<Answers<paths[P]["post"]>> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (key) headers["idempotency-key"] = key;
  return send(address(path, params as object), { method: "POST", body: JSON.stringify(body ?? {}), headers }) as Promise<Answers<paths[P]["post"]>>;
}

/** A token is in a header only: addresses are kept in logs. */
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** question is what the bearer of a token is asked. */
export function question(token: string): Promise<Schemas["Question"]> {
  return send("/answers", { headers: bearer(token) }) as Promise<Schemas["Question"]>;
}

/** answer sends what the bearer of a token answers. The same answer may be sent again. */
export function answer(token: string, input: unknown): Promise<Schemas["TokenReceipt"]> {
  const headers = { "content-type": "application/json", ...bearer(token) };
  return send("/answers", { method: "POST", body: JSON.stringify({ input }), headers }) as Promise<Schemas["TokenReceipt"]>;
}

/** useKey gives the same key for the same request, however often it is sent, and another one for another request. */
export function useKey(): (request: unknown) => string {
  const last = useRef({ text: "", key: "" });
  return (request) => {
    const text = JSON.stringify(request);
    if (last.current.text !== text) last.current = { text, key: crypto.getRandomValues(new Uint32Array(4)).join("-") };
    return last.current.key;
  };
}

/** publish sends the text of a definition. */
export function publish(text: string, dryRun: boolean): Promise<Schemas["Definition"]> {
  return send(address("/workflow-definition/publish", {}, { dryRun }), { method: "POST", body: text, headers: { "content-type": "application/yaml" } }) as Promise<Schemas["Definition"]>;
}

/** all reads every page of a list, and tells of the items after each page. */
export async function all<P extends GetPath>(path: P, params: Path<paths[P]["get"]>, query: object, signal: AbortSignal, told?: (items: Items<P>[]) => void): Promise<Items<P>[]> {
  const items: Items<P>[] = [];
  for (let pageToken: string | undefined; ;) {
    const page = await send(address(path, params as object, { ...query, pageToken }), { signal }) as { items: Items<P>[]; nextPageToken: string | null };
    for (const item of page.items) items.push(item);
    if (!page.nextPageToken) return items;
    pageToken = page.nextPageToken;
    told?.(items);
  }
}
