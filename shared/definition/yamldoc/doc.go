// Package document reads YAML and JSON with positions. It knows nothing of
// definitions: it gives their reader the means to take a document apart, field
// by field, and to collect everything that is wrong with it, each with its path,
// line and column.
//
//   - document.go is the way in; bounds.go refuses what no document needs, before
//     the parser works on it.
//   - tree.go reads objects, lists, texts, numbers and choices, and reports what
//     is not one. value.go turns free values into JSON.
//   - place.go finds places by their path.
package yamldoc
