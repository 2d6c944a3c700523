// Every view has an address behind the #, so that it can be linked to.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

function parse(): Route {
  const hash = location.hash.slice(1);
  if (hash.startsWith("lst1.")) {
    location.replace(`/answer#${hash}`); // a token is no id: an address that is read would have it
    return { path: ["answer"], query: new URLSearchParams() };
  }
  if (hash && !hash.startsWith("/")) return { path: ["executions", hash], query: new URLSearchParams() };
  const [path = "", query = ""] = hash.split("?", 2);
  const decode = (part: string): string => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  const parts = path.split("/").filter(Boolean).map(decode);
  return { path: parts.length > 0 ? parts : ["executions"], query: new URLSearchParams(query) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const changed = () => setRoute(parse());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** to is the address of a view. */
export function to(path: (string | number)[], query?: Record<string, string | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value) search.set(name, value);
  return `#/${path.map((p) => encodeURIComponent(p)).join("/")}${search.size > 0 ? `?${search}` : ""}`;
}

/** go changes the filters of the present view. */
export function go(path: string[], query: Record<string, string | undefined>): void {
  location.hash = to(path, query);
}
