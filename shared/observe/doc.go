// Package observe is how the work that is being done is told to people: in lines
// of a log and in spans of a trace. Both speak of a thing by the same name, and
// neither ever says what is not theirs to say.
//
// A tour:
//
//   - field.go: the names, [Field], of which docs/observability.md has a table.
//   - log.go: [NewLog], the one place that makes a logger. What a context knows (the
//     invocation, the trace) becomes part of every line that is written with it.
//   - redact.go: what is kept out of a log, by its key, its kind or its form.
//   - span.go: [Tracer], through which the engine and the worker begin spans
//     without knowing who takes them. [Off] takes none.
//
// It is imported by everybody and imports the standard library alone.
package observe
