package queue

import "container/heap"

// ordered is a heap whose elements know their place in it, so that any of them can be taken out.
type ordered[T any] struct {
	slots slots[T]
}

func newOrdered[T any](before func(a, b T) bool, place func(T) *int) ordered[T] {
	return ordered[T]{slots[T]{before: before, place: place}}
}

func (o *ordered[T]) len() int   { return len(o.slots.all) }
func (o *ordered[T]) first() T   { return o.slots.all[0] }
func (o *ordered[T]) push(x T)   { heap.Push(&o.slots, x) }
func (o *ordered[T]) fix(x T)    { heap.Fix(&o.slots, *o.slots.place(x)) }
func (o *ordered[T]) remove(x T) { heap.Remove(&o.slots, *o.slots.place(x)) }

// slots implements heap.Interface.
type slots[T any] struct {
	all    []T
	before func(a, b T) bool
	place  func(T) *int
}

func (s *slots[T]) Len() int           { return len(s.all) }
func (s *slots[T]) Less(i, j int) bool { return s.before(s.all[i], s.all[j]) }

func (s *slots[T]) Swap(i, j int) {
	s.all[i], s.all[j] = s.all[j], s.all[i]
	*s.place(s.all[i]), *s.place(s.all[j]) = i, j
}

func (s *slots[T]) Push(x any) {
	t, ok := x.(T)
	if !ok {
		return
	}
	*s.place(t) = len(s.all)
	s.all = append(s.all, t)
}

func (s *slots[T]) Pop() any {
	last := len(s.all) - 1
	t := s.all[last]
	var zero T
	s.all[last] = zero
	s.all = s.all[:last]
	return t
}
