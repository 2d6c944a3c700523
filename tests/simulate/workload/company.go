package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/lockstep-run/lockstep/shared/sim/plot"
)

// Seeds is how many seeds in a row have their definitions in common, and
// definitions how many these are: reading and compiling them is most of the cost
// of a play.
const Seeds, definitions = 256, 48

// Company is the definitions of a block of seeds.
type Company struct {
	Number      uint64
	definitions map[string]*plot.Definition
}

// CompanyOf is the company that plays a seed.
func CompanyOf(seed uint64) *Company {
	return &Company{Number: seed / Seeds, definitions: map[string]*plot.Definition{}}
}

// Definition is one of the company's, by its name.
func (c *Company) Definition(name string) *plot.Definition {
	if d := c.definitions[name]; d != nil {
		return d
	}
	var n int
	if _, err := fmt.Sscanf(name, "w%d", &n); err != nil {
		panic(fmt.Errorf("workload: no definition is called %q: %w", name, err))
	}
	r := rand.New(rand.NewPCG(c.Number, uint64(1000+n)))
	var others []string // only smaller ones: nobody refers to itself
	for i := range n % 6 {
		others = append(others, nameOf(n-n%6+i))
	}
	d := plot.DrawAny(func(_ string, below int) int { return r.IntN(below) }, others)
	c.definitions[name] = d
	return d
}

// Shorten leaves steps out of a definition from now on, unless none would be left.
func (c *Company) Shorten(name string, labels []string) *plot.Definition {
	if d := c.Definition(name).Without(labels); d != nil {
		c.definitions[name] = d
	}
	return c.definitions[name]
}

func nameOf(n int) string { return fmt.Sprintf("w%d", n) }
