// Package beside keeps what belongs to an execution and is too large to ride in
// its state item: what the starter gave, the entities of its scope, and the older
// part of its history. What is small rides in the item; the rest lies beside it, and is read when it is needed,
// once a look.
package beside
