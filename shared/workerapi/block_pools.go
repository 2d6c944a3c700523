package workerapi

import (
	"context"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// blockPools caches the pools of blocks, by tenant and exact reference: blocks are immutable.
type blockPools struct {
	mu    sync.Mutex
	pools map[string]string
}

const maxBlockPools = 10_000

// poolsOf lists the pools of the versions of a block that match a reference. Every poll needs them,
// so it reads the block's version index, and all versions only if it does not know those in the
// index.
func (s *Service) poolsOf(ctx context.Context, tenant string, ref workflow.Ref) ([]string, error) {
	index, err := s.BlockRegistry.VersionIndex(ctx, tenant, workflow.BlockVersions, ref.FullName())
	if err != nil {
		return nil, err
	}
	if pools := s.blockPools.matching(tenant, ref, index); len(pools) > 0 {
		return pools, nil
	}
	versions, err := s.BlockRegistry.BlockVersions(ctx, tenant, ref.FullName())
	if err != nil {
		return nil, err
	}
	s.blockPools.add(tenant, versions)
	var pools []string
	for _, b := range versions {
		if ref.Matches(b.Version) {
			pools = append(pools, poolName(b))
		}
	}
	return pools, nil
}

// matching lists the pools of the versions that match a reference; nil if one of them is unknown,
// or if the index may lack one.
func (p *blockPools) matching(tenant string, ref workflow.Ref, index workflow.VersionIndex) (pools []string) {
	if index.Older {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range slices.Backward(index.Versions) { // oldest first, as they are stored
		if !ref.Matches(v.Version) {
			continue
		}
		exact := ref
		exact.Version = v.Version
		pool, known := p.pools[tenant+"#"+exact.String()]
		if !known {
			return nil
		}
		pools = append(pools, pool)
	}
	return pools
}

func (p *blockPools) add(tenant string, blocks []workflow.Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pools == nil || len(p.pools)+len(blocks) > maxBlockPools {
		p.pools = map[string]string{}
	}
	for _, b := range blocks {
		p.pools[tenant+"#"+b.Ref().String()] = poolName(b)
	}
}
