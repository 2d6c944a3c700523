// Package values turns JSON into values of CEL and back. convert.go loses no
// digit of a number and keeps to a size; order.go gives maps an order, so that
// evaluating twice gives the same.
package values
