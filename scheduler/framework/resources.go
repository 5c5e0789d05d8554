package framework

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount is a number of thousandths of one logical resource.
type Amount struct {
	Name  string `json:"name"`
	Milli int64  `json:"milli"`
}

// Resources is a vector of amounts, sorted by name, without duplicates. Values are never changed in place: a vector
// may be shared by snapshots.
type Resources []Amount

// RequestOf turns a ResourceList into what is asked for: fractions of a thousandth are rounded up.
func RequestOf(list corev1.ResourceList) Resources {
	return fromList(list, func(q *resource.Quantity) int64 { return q.ScaledValue(resource.Milli) })
}

// CapacityOf turns a ResourceList into what is offered: fractions of a thousandth are rounded down.
func CapacityOf(list corev1.ResourceList) Resources {
	return fromList(list, func(q *resource.Quantity) int64 {
		milli := q.ScaledValue(resource.Milli)
		if resource.NewMilliQuantity(milli, q.Format).Cmp(*q) > 0 {
			milli--
		}
		return milli
	})
}

func fromList(list corev1.ResourceList, milli func(*resource.Quantity) int64) Resources {
	largest := resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	r := make(Resources, 0, len(list))
	for name, q := range list {
		a := Amount{Name: string(name), Milli: math.MaxInt64}
		if q.Cmp(*largest) < 0 {
			a.Milli = milli(&q)
		}
		r = append(r, a)
	}
	slices.SortFunc(r, func(a, b Amount) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

// Of returns the thousandths of the named resource, 0 when the vector does not hold it.
func (r Resources) Of(name string) int64 {
	for i := range r {
		if r[i].Name == name {
			return r[i].Milli
		}
	}
	return 0
}

// Plus returns the sum. It saturates instead of overflowing.
func (r Resources) Plus(o Resources) Resources { return r.merge(o, saturatingAdd) }

// Minus returns the difference, never less than zero.
func (r Resources) Minus(o Resources) Resources {
	return r.merge(o, func(a, b int64) int64 { return max(0, a-b) })
}

func (r Resources) merge(o Resources, combine func(a, b int64) int64) Resources {
	out := make(Resources, 0, max(len(r), len(o)))
	i, j := 0, 0
	for i < len(r) || j < len(o) {
		switch {
		case j == len(o) || i < len(r) && r[i].Name < o[j].Name:
			out = append(out, Amount{Name: r[i].Name, Milli: combine(r[i].Milli, 0)})
			i++
		case i == len(r) || o[j].Name < r[i].Name:
			out = append(out, Amount{Name: o[j].Name, Milli: combine(0, o[j].Milli)})
			j++
		default:
			out = append(out, Amount{Name: r[i].Name, Milli: combine(r[i].Milli, o[j].Milli)})
			i++
			j++
		}
	}
	return out
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// String lists the amounts as "name=units", for logs and as part of a class.
func (r Resources) String() string {
	var b strings.Builder
	for i, a := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.Name)
		b.WriteByte('=')
		b.WriteString(Units(a.Milli))
	}
	return b.String()
}

// Units prints thousandths as units, with as many decimals as there are: 4, 0.5, 1.25.
func Units(milli int64) string {
	whole, rest := milli/1000, milli%1000
	if rest == 0 {
		return strconv.FormatInt(whole, 10)
	}
	return strconv.FormatInt(whole, 10) + "." + strings.TrimRight(strconv.FormatInt(1000+rest, 10)[1:], "0")
}
