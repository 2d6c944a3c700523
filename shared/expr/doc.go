// Package expr evaluates what authors write into definitions: CEL expressions,
// and JSON templates whose strings hold ${...} tokens.
//
//   - program.go compiles one expression and says what it refers to.
//   - scope.go is what an expression sees: parameters, entity, the results of
//     steps, steps and execution.
//   - template.go fills a JSON object; a string that is one token keeps its type.
//   - token.go finds tokens in a string, query.go selects entities.
//   - value.go turns JSON into CEL values and back without losing numbers.
//
// Everything is limited: the length of an expression, the cost of evaluating it.
// Nothing an author writes is executed as code.
package expr
