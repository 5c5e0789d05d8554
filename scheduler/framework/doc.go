// Package framework is the pure half of the scheduler: the snapshot that a decision rests on, the plugin interfaces,
// and the cycle that turns a snapshot and a Run into a Pod or into the reason why there is none.
//
// A cycle runs these extension points, in the order in which the profile lists the plugins:
//
//	PreFilter   once per Run     may reject the Run for every Pod, or skip its plugin
//	Filter      once per Pod     the first plugin that rejects a Pod decides its verdict
//	Score       once per Pod that is left, 0 to 100, multiplied by the plugin's weight
//	Reserve     once, for the Pod that was picked; Unreserve undoes it when the bind fails
//
// Nothing in here reads a clock, a client or a lock, and the same snapshot and Run always give the same answer: the
// best score wins, and among equals the first name.
package framework
