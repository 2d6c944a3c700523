// Package beside keeps what belongs to an execution and is too large to ride in
// its state item: what the starter gave, and the entities of its scope. What is
// small rides in the item; the rest lies beside it, and is read when it is needed,
// once a look.
package beside
