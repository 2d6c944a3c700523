package testkit

import "maps"

// Difference returns by how much each unit of one consumption is more than that of another, divided
// by a number, without those that are the same.
func Difference(a, b map[string]float64, by float64) map[string]float64 {
	more := map[string]float64{}
	maps.Copy(more, a)
	for name, n := range b {
		more[name] -= n
	}
	for name := range more {
		more[name] /= by
	}
	maps.DeleteFunc(more, func(_ string, n float64) bool { return n == 0 })
	return more
}
