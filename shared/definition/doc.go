// Package definition reads what authors publish: it parses a definition from
// YAML or JSON, lists everything that is wrong with it at once, each with its
// line and column, and compiles its expressions.
//
//   - parse.go is the way in. The room document takes the text apart.
//   - fields.go knows the fields of a definition, step.go those of a step. What
//     is promised and not built yet is refused by name with not_implemented.
//   - references.go checks what refers to what.
//   - compile.go makes the form that the engine evaluates.
//   - schema.go validates against JSON Schema, without loading anything.
//   - block.go checks function blocks. canonical.go says when two are the same.
package definition
