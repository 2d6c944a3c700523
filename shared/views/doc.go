// Package views holds what is asked for and what is shown over HTTP: requests,
// filters, and the forms in which runs, steps, locks and costs are answered.
// Their JSON is the wire form. The nouns they are made of are in package
// workflow; shared/engine/query fills them.
package views
