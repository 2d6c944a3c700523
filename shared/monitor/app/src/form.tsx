// A form made from a JSON Schema. It reads the schema and compiles nothing, as the policy of the
// page demands; the service validates what is sent. What it has no field for is written as JSON.
import type { VNode } from "preact";
import { useId, useState } from "preact/hooks";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, Schema | true>;
  required?: string[];
  items?: Schema | boolean;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  "x-sealed"?: boolean;
}

type Values = Record<string, unknown>;

const typeOf = (s: Schema): string | undefined => (Array.isArray(s.type) ? s.type.find((t) => t !== "null") : s.type);

/** isObject says whether the form has a field for each property. */
export const isObject = (s: Schema | null | undefined): boolean => !!s && (typeOf(s) === "object" || !!s.properties) && Object.keys(s.properties ?? {}).length > 0;

/** inOrder has the required properties first. */
const inOrder = (schema: Schema): [string, Schema | true][] => {
  const last = (key: string) => Number(!schema.required?.includes(key));
  return Object.entries(schema.properties ?? {}).sort(([a], [b]) => last(a) - last(b));
};

/** Form edits a value by its schema. What is not valid JSON is told by valid. */
export function Form({ schema, value, onChange }: { schema: Schema | null | undefined; value: unknown; onChange: (value: unknown, valid: boolean) => void }): VNode {
  const [broken, setBroken] = useState<ReadonlySet<string>>(new Set());
  if (!schema || !isObject(schema)) return <JSONField label="Value" schema={schema ?? {}} value={value} onChange={(v, ok) => onChange(v, ok)} />;
  const values = (value ?? {}) as Values;
  return (
    <div class="fields">
      {inOrder(schema).map(([key, s]) => (
        <One key={key} name={key} schema={s === true ? {} : s} required={schema.required?.includes(key) ?? false} value={values[key]}
          onChange={(v, ok) => {
            const still = new Set(broken);
            if (ok) still.delete(key);
            else still.add(key);
            setBroken(still);
            const next = { ...values };
            if (v === undefined) delete next[key];
            else next[key] = v;
            onChange(next, still.size === 0);
          }} />
      ))}
    </div>
  );
}

function One({ name, schema: s, required, value, onChange }: { name: string; schema: Schema; required: boolean; value: unknown; onChange: (value: unknown, valid: boolean) => void }): VNode {
  const id = useId();
  const label = `${s.title ?? name}${required ? " (required)" : ""}`;
  const hint = [s.description, s.pattern ? `has to match ${s.pattern}` : "", s.minimum !== undefined ? `at least ${s.minimum}` : "", s.maximum !== undefined ? `at most ${s.maximum}` : ""].filter(Boolean).join("; ");
  const about = hint ? `${id}-hint` : undefined;
  const type = typeOf(s);
  const items = typeof s.items === "object" ? typeOf(s.items) : undefined;
  let field: VNode;
  if (s.enum) {
    field = (
      <select id={id} name={name} aria-describedby={about} required={required} value={JSON.stringify(value) ?? ""} onChange={(e) => onChange(e.currentTarget.value === "" ? undefined : JSON.parse(e.currentTarget.value), true)}>
        <option value="" />
        {s.enum.map((v) => <option value={JSON.stringify(v)}>{typeof v === "string" ? v : JSON.stringify(v)}</option>)}
      </select>
    );
  } else if (type === "boolean") {
    field = (
      <select id={id} name={name} aria-describedby={about} required={required} value={value === undefined ? "" : String(value)} onChange={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.value === "true", true)}>
        <option value="" /><option value="true">yes</option><option value="false">no</option>
      </select>
    );
  } else if (type === "integer" || type === "number") {
    field = <input id={id} name={name} type="number" aria-describedby={about} step={type === "integer" ? "1" : "any"} min={s.minimum} max={s.maximum} required={required} value={value === undefined ? "" : String(value)}
      onInput={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.valueAsNumber, true)} />;
  } else if (type === "string" && s["x-sealed"]) {
    field = <input id={id} name={name} type="password" aria-describedby={about} required={required} minLength={s.minLength} maxLength={s.maxLength} value={value === undefined ? "" : String(value)} autocomplete="new-password"
      onInput={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.value, true)} />;
  } else if (type === "string") {
    field = <input id={id} name={name} aria-describedby={about} required={required} minLength={s.minLength} maxLength={s.maxLength} value={value === undefined ? "" : String(value)} autocomplete="off"
      onInput={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.value, true)} />;
  } else if (type === "array" && items === "string") {
    const list = Array.isArray(value) ? (value as string[]) : [];
    field = <textarea id={id} name={name} aria-describedby={about} rows={3} required={required} value={list.join("\n")} placeholder="one a line"
      onInput={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.value.split("\n"), true)} />;
  } else if (type === "object" && isObject(s)) {
    return <fieldset><legend>{label}</legend>{hint ? <p class="calm">{hint}</p> : null}<Form schema={s} value={value} onChange={onChange} /></fieldset>;
  } else {
    return <JSONField label={label} schema={s} value={value} onChange={onChange} />;
  }
  return <div class="field"><label for={id}>{label}</label>{field}{hint ? <small id={about}>{hint}</small> : null}</div>;
}

function JSONField({ label, schema, value, onChange }: { label: string; schema: Schema; value: unknown; onChange: (value: unknown, valid: boolean) => void }): VNode {
  const id = useId();
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState("");
  return (
    <div class="field">
      <label for={id}>{label}, as JSON</label>
      <textarea id={id} rows={4} value={text} aria-describedby={`${id}-hint`} spellcheck={false} onInput={(e) => {
        const typed = e.currentTarget.value;
        setText(typed);
        try {
          const v: unknown = typed.trim() === "" ? undefined : JSON.parse(typed);
          setWrong("");
          onChange(v, true);
        } catch (error) {
          setWrong(String((error as Error).message));
          onChange(undefined, false);
        }
      }} />
      <small id={`${id}-hint`}>{wrong || schema.description || ""}</small>
    </div>
  );
}

/** consent is the form of an approval. */
export const consent: Schema = { type: "object", required: ["approved"], properties: { approved: { type: "boolean", title: "Approve" }, note: { type: "string", title: "Note" } } };

/** start is the value with which a form begins: the defaults of its schema. */
export function start(schema: Schema | null | undefined): unknown {
  if (!schema) return undefined;
  if (schema.default !== undefined) return schema.default;
  if (!isObject(schema)) return undefined;
  const values: Values = {};
  for (const [key, s] of Object.entries(schema.properties!)) {
    const v = s === true ? undefined : start(s);
    if (v !== undefined) values[key] = v;
  }
  return values;
}
