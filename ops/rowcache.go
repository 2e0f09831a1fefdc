package ops

import "github.com/wickerwork/wicker/codec"

// rowCache is a table as an operator sees it, with the decoded rows that were looked up last, as long as the table does not change. With room for none it only decodes.
// It belongs to the task's goroutine.
type rowCache[TV any] struct {
	table Lookups
	name  string
	codec codec.Codec[TV]
	// most is how many rows there may be, in two generations: those looked up since the younger one began, and those of the one before.
	most       int
	young, old map[string]cachedRow[TV]
	version    int64
}

// cachedRow is what a lookup has found; also that there is no row.
type cachedRow[TV any] struct {
	row   TV
	found bool
}

func (c *rowCache[TV]) get(key []byte) (row TV, found bool, err error) {
	if c.most == 0 {
		return c.read(key)
	}
	if v := c.table.Version(); v != c.version || c.young == nil {
		c.version, c.young, c.old = v, map[string]cachedRow[TV]{}, nil
	}
	r, ok := c.young[string(key)]
	if ok {
		return r.row, r.found, nil
	}
	if r, ok = c.old[string(key)]; !ok {
		if r.row, r.found, err = c.read(key); err != nil {
			return row, false, err
		}
	}
	if len(c.young) >= max(1, c.most/2) {
		if c.old = c.young; c.most == 1 {
			c.old = nil
		}
		c.young = map[string]cachedRow[TV]{}
	}
	c.young[string(key)] = r
	return r.row, r.found, nil
}

func (c *rowCache[TV]) read(key []byte) (row TV, found bool, err error) {
	value, found, err := c.table.Get(key)
	if !found || err != nil {
		return row, false, err
	}
	if row, err = c.codec.Decode(value); err != nil {
		return row, false, &DecodeError{Part: "value of table " + c.name, Err: err}
	}
	return row, true, nil
}
