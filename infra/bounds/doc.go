// Package bounds knows what AWS would refuse at the end of a deployment, or accept and
// never run, so that it can be said at its beginning: a program that is of another
// processor, an environment or a name that is too long, a version that the programs do
// not have.
package bounds
