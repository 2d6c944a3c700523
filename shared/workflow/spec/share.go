package spec

import (
	"math/big"
	"strconv"
)

// percentOf returns the share of a total that a percentage is, as it was written: 1.4% of 5,500 are
// 77, although no float64 is 1.4. whole is without the fraction, and exact says that there is none.
func percentOf(percent float64, total int) (whole int, exact bool) {
	share, _ := new(big.Rat).SetString(strconv.FormatFloat(percent, 'f', -1, 64)) // always a number
	share.Mul(share, big.NewRat(int64(total), 100))
	return int(new(big.Int).Quo(share.Num(), share.Denom()).Int64()), share.IsInt()
}

// Most returns how many of so many may fail.
func (t Tolerance) Most(total int) int {
	if t.Percent > 0 {
		most, _ := percentOf(t.Percent, total)
		return most
	}
	return t.Count
}

// Allows reports whether failed of total jobs are tolerated.
func (t Tolerance) Allows(failed, total int) bool { return failed <= t.Most(total) }

// Of returns how many of so many a share is: of a percentage, also a part of one counts as one.
func (s Share) Of(total int) int {
	if s.Percent > 0 {
		n, exact := percentOf(s.Percent, total)
		if !exact {
			n++
		}
		return n
	}
	return s.Count
}
