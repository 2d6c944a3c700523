// Package given reads what a command line gives: values.go the parameters, labels
// and selections in flags, blocks.go the blocks in a file.
package given
