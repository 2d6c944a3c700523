// Package expr evaluates what authors write into definitions: CEL expressions,
// and JSON templates whose strings hold ${...} tokens.
//
//   - language.go is the language of one definition: which names it knows, and
//     what an evaluation may cost at most.
//   - syntax.go says in plain words what does not parse.
//   - program.go is one compiled expression; references.go says what it reads.
//   - scope.go is what an expression sees: parameters, entity, the results of
//     steps, steps and execution.
//   - template.go fills a JSON object; a string that is one token keeps its type.
//   - token.go finds tokens in a string, query.go selects entities.
//   - outside.go has the languages of expressions that stand in no step: over
//     parameters, over a failure, over the inventory.
//   - The room bounds keeps the functions to what they may cost, and the room values
//     turns JSON into CEL values and back.
//
// Everything is limited: the length of an expression, the cost of evaluating it,
// the size of every value on the way and of what comes out. Nothing an author
// writes is executed as code. The limits are of cost and size, never of time, so
// that evaluating again gives the same.
package expr
