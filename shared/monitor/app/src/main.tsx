// The shell of the monitor: navigation, theme, keys, and the view that the address names.
import { render } from "preact";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useCaller } from "./caller";
import { type Route, to, useRoute } from "./route";
import { Dialog } from "./ui";
import { Definitions } from "./views/definitions";
import { Entities, Failures } from "./views/entities";
import { ExecutionView } from "./views/execution";
import { Executions } from "./views/executions";
import { Inbox } from "./views/inbox";
import { Locks } from "./views/locks";
import { Metrics } from "./views/metrics";
import { Start } from "./views/start";
import { Blocks, Workers } from "./views/workers";

interface Place {
  key: string;
  title: string;
  path: string[];
  view: (route: Route) => VNode;
}

const places: Place[] = [
  { key: "x", title: "Executions", path: ["executions"], view: (r) => (r.path[1] ? <ExecutionView route={r} key={r.path[1]} /> : <Executions route={r} />) },
  { key: "i", title: "Inbox", path: ["inbox"], view: (r) => <Inbox route={r} /> },
  { key: "f", title: "Failures", path: ["failures"], view: (r) => <Failures route={r} /> },
  { key: "e", title: "Entities", path: ["entities"], view: (r) => <Entities route={r} key={r.path.join("/")} /> },
  { key: "l", title: "Locks", path: ["locks"], view: () => <Locks /> },
  { key: "w", title: "Workers", path: ["workers"], view: () => <Workers /> },
  { key: "b", title: "Blocks", path: ["blocks"], view: (r) => <Blocks route={r} /> },
  { key: "m", title: "Metrics", path: ["metrics"], view: (r) => <Metrics route={r} /> },
  { key: "d", title: "Definitions", path: ["definitions"], view: (r) => <Definitions route={r} key={r.path.join("/")} /> },
];

/** starting is a view that no menu has: it is of one definition. */
const starting = (r: Route): VNode | undefined => (r.path[0] === "start" && r.path.length === 4 ? <Start route={r} key={r.path.join("/")} /> : undefined);

const themes = ["system", "light", "dark"] as const;

function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(() => localStorage.getItem("theme") ?? "system");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  return [theme, () => setTheme(themes[(themes.indexOf(theme as "system") + 1) % themes.length]!)];
}

/** useKeys moves between the views: g and the key of a view, / to the filters, ? for help. */
function useKeys(help: () => void): void {
  useEffect(() => {
    let began = false;
    const pressed = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || at.closest("input, select, textarea, dialog")) return;
      if (began) {
        began = false;
        const place = places.find((p) => p.key === e.key);
        if (place) location.hash = to(place.path);
      } else if (e.key === "g") {
        began = true;
      } else if (e.key === "?") {
        help();
      } else if (e.key === "/") {
        document.querySelector<HTMLElement>("form input, form select")?.focus();
        e.preventDefault();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function App(): VNode {
  const route = useRoute();
  const [theme, nextTheme] = useTheme();
  const [help, setHelp] = useState(false);
  const caller = useCaller();
  useKeys(() => setHelp(true));
  const place = places.find((p) => p.path[0] === route.path[0]);
  const main = useRef<HTMLElement>(null);
  const shown = route.path.slice(0, 3).join("/");
  const first = useRef(true);
  useEffect(() => {
    document.title = [...route.path.slice(1, 3).reverse(), place?.title, "Lockstep"].filter(Boolean).join(" · ");
    // Who cannot see that another view is shown is taken to it.
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [shown]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <header>
        <p class="brand"><a href="#/executions">Lockstep</a></p>
        <nav aria-label="Views">
          {places.map((p) => <a href={to(p.path)} aria-current={p === place ? "page" : undefined}>{p.title}</a>)}
        </nav>
        <div class="tools">
          {caller ? <span class="calm" title={`Tenant ${caller.tenant}; ${caller.roles.length > 0 ? `roles: ${caller.roles.join(", ")}` : "no role"}`}>{caller.actor}</span> : null}
          <button type="button" onClick={nextTheme}>Theme: {theme}</button>
          <button type="button" onClick={() => setHelp(true)}>Keys</button>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {place ? place.view(route) : starting(route) ?? <><h1>Not found</h1><p>There is no such view. <a href="#/executions">Go to the executions</a>.</p></>}
      </main>
      {help ? (
        <Dialog title="Keys" onClose={() => setHelp(false)}>
          <dl class="pairs">
            {places.map((p) => <><dt><kbd>g</kbd> <kbd>{p.key}</kbd></dt><dd>{p.title}</dd></>)}
            <dt><kbd>/</kbd></dt><dd>To the filters</dd>
            <dt><kbd>?</kbd></dt><dd>This list</dd>
            <dt><kbd>Esc</kbd></dt><dd>Closes it</dd>
          </dl>
          <form method="dialog"><button>Close</button></form>
        </Dialog>
      ) : null}
    </>
  );
}

render(<App />, document.getElementById("app")!);
