// Package intake gives a service an inventory of any length: parts.go cuts it into
// parts that a request can carry, holds a long one to the law of shared/inventory
// before any of it is sent, and tells how much is stored when it does not come to
// its end.
package intake
