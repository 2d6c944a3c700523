// Package bounds keeps the functions of CEL to what an evaluation may cost. The
// library charges for a call when it is done, and takes many for one step that
// walk a whole list.
//
//   - functions.go looks how long a text will be before it is made.
//   - pattern.go does that for regular expressions.
//   - prices.go says what a call costs.
//   - accumulator.go keeps the size limit from taking quadratic time.
package limits
