// Package lockitem holds what one conditional write does to one lock item, and
// whether its condition holds, without any store around it.
//
// item.go has the writes of port.Locks by name: [Take], [Share], [Join], [Reserve].
// Each is a [Write]: given the item as it stands it returns it as it is then; an
// item whose condition did not hold comes back as it was.
package lockitem
