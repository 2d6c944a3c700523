// Package definition reads what authors publish: it parses a definition from
// YAML or JSON, lists everything that is wrong with it at once, each with its
// line and column, and compiles its expressions.
//
//   - parse.go is the way in. The room document takes the text apart.
//   - root.go, config.go, step.go and cron.go declare the fields there are, from
//     scalars.go: how each is read and what a JSON Schema says of it. What is
//     promised and not built yet is refused by name with not_implemented.
//   - whole.go checks what needs the whole definition. The room program compiles
//     expressions, and checks what they read.
//   - schema.go writes the JSON Schema of definitions; the room schema validates
//     values against such schemas.
//   - block.go checks function blocks. canonical.go says when two definitions are
//     the same.
package definition
