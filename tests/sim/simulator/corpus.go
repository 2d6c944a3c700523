package simulator

import (
	"fmt"
	"math/rand/v2"

	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// seedsPerCorpus is how many seeds in a row have their definitions in common, and
// definitions how many these are: reading and compiling them is most of the cost
// of a play.
const seedsPerCorpus, definitionsPerCorpus = 256, 48

// corpus is the definitions of a block of seeds.
type corpus struct {
	number      uint64
	definitions map[string]*defgen.Definition
}

// newCorpus is the company that plays a seed.
func newCorpus(seed uint64) *corpus {
	return &corpus{number: seed / seedsPerCorpus, definitions: map[string]*defgen.Definition{}}
}

// definition is one of the company's, by its name.
func (c *corpus) definition(name string) *defgen.Definition {
	if d := c.definitions[name]; d != nil {
		return d
	}
	var n int
	if _, err := fmt.Sscanf(name, "w%d", &n); err != nil {
		panic(fmt.Errorf("workload: no definition is called %q: %w", name, err))
	}
	r := rand.New(rand.NewPCG(c.number, uint64(1000+n)))
	var references []string // only smaller ones: nobody refers to itself
	for i := range n % 6 {
		references = append(references, definitionName(n-n%6+i))
	}
	d := defgen.GenerateAny(func(_ string, below int) int { return r.IntN(below) }, references)
	c.definitions[name] = d
	return d
}

// shorten leaves steps out of a definition from now on, unless none would be left.
func (c *corpus) shorten(name string, labels []string) *defgen.Definition {
	if d := c.definition(name).WithoutSteps(labels); d != nil {
		c.definitions[name] = d
	}
	return c.definitions[name]
}

func definitionName(n int) string { return fmt.Sprintf("w%d", n) }
