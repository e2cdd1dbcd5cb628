// Entry points: launches, host functions, graphs, modules.

#include "test/fakes/submit.h"

#include <cstring>

using namespace fake;

static Graph* find_graph(const Frame& f, const void* handle) {
    if (f.s.graph_handles.count(handle) == 0) return nullptr;
    return const_cast<Graph*>(static_cast<const Graph*>(handle));
}

static CUresult launch_kernel(Fn fn, CUfunction function, CUstream stream) {
    return call(fn, [&](Frame& f) -> CUresult {
        if (!function) return CUDA_ERROR_INVALID_HANDLE;
        GraphNode node;
        node.duration = f.s.config.kernel_ns;
        return launch(f, stream, node);
    });
}
FAKE(cuLaunchKernel, CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
     CUstream stream, void**, void**) {
    return launch_kernel(Fn::cuLaunchKernel, function, stream);
}
FAKE(cuLaunchKernel_ptsz, CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
     CUstream stream, void**, void**) {
    return launch_kernel(Fn::cuLaunchKernel_ptsz, function, per_thread(stream));
}

static CUresult launch_host(Fn fn, CUstream stream, CUhostFn function, void* data) {
    return call(fn, [&](Frame& f) -> CUresult {
        if (!function) return CUDA_ERROR_INVALID_VALUE;
        GraphNode node;
        node.type = CU_GRAPH_NODE_TYPE_HOST;
        node.host_function = function;
        node.host_data = data;
        return launch(f, stream, node);
    });
}
FAKE(cuLaunchHostFunc, CUstream stream, CUhostFn function, void* data) {
    return launch_host(Fn::cuLaunchHostFunc, stream, function, data);
}
FAKE(cuLaunchHostFunc_ptsz, CUstream stream, CUhostFn function, void* data) {
    return launch_host(Fn::cuLaunchHostFunc_ptsz, per_thread(stream), function, data);
}

FAKE(cuGraphCreate, CUgraph* out, unsigned) {
    return call(
        Fn::cuGraphCreate,
        [&](Frame& f) -> CUresult {
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            Graph* made = new Graph;
            f.s.graph_handles.insert(made);
            *out = reinterpret_cast<CUgraph>(made);
            return CUDA_SUCCESS;
        },
        out);
}

static CUresult destroy_graph(Fn fn, const void* handle) {
    return call(fn, [&](Frame& f) -> CUresult {
        Graph* graph = find_graph(f, handle);
        if (!graph) return CUDA_ERROR_INVALID_VALUE;
        f.s.graph_handles.erase(graph);
        delete graph;
        return CUDA_SUCCESS;
    });
}
FAKE(cuGraphDestroy, CUgraph graph) { return destroy_graph(Fn::cuGraphDestroy, graph); }
FAKE(cuGraphExecDestroy, CUgraphExec graph) { return destroy_graph(Fn::cuGraphExecDestroy, graph); }

FAKE(cuGraphGetNodes, CUgraph handle, CUgraphNode* nodes, size_t* count) {
    return call(Fn::cuGraphGetNodes, [&](Frame& f) -> CUresult {
        Graph* graph = find_graph(f, handle);
        if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; nodes && i < *count; ++i)
            nodes[i] = i < graph->nodes.size() ? reinterpret_cast<CUgraphNode>(&graph->nodes[i]) : nullptr;
        if (!nodes || *count > graph->nodes.size()) *count = graph->nodes.size();
        return CUDA_SUCCESS;
    });
}

/// An executable graph is a copy: later changes of the graph do not reach it.
static CUresult instantiate(Fn fn, CUgraphExec* out, CUgraph handle) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Graph* graph = find_graph(f, handle);
            if (!graph || !out) return CUDA_ERROR_INVALID_VALUE;
            Graph* made = new Graph(*graph);
            f.s.graph_handles.insert(made);
            *out = reinterpret_cast<CUgraphExec>(made);
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuGraphInstantiate, CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
    return instantiate(Fn::cuGraphInstantiate, out, graph);
}
FAKE(cuGraphInstantiate_v2, CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
    return instantiate(Fn::cuGraphInstantiate_v2, out, graph);
}
FAKE(cuGraphInstantiateWithFlags, CUgraphExec* out, CUgraph graph, unsigned long long) {
    return instantiate(Fn::cuGraphInstantiateWithFlags, out, graph);
}

static CUresult launch_graph(Fn fn, CUgraphExec handle, CUstream stream) {
    return call(fn, [&](Frame& f) -> CUresult {
        Graph* graph = find_graph(f, handle);
        if (!graph) return CUDA_ERROR_INVALID_VALUE;
        std::vector<GraphNode> nodes = graph->nodes; // the launch may sleep, the graph may go
        for (const GraphNode& node : nodes)
            if (CUresult code = launch(f, stream, node)) return code;
        return CUDA_SUCCESS;
    });
}
FAKE(cuGraphLaunch, CUgraphExec graph, CUstream stream) { return launch_graph(Fn::cuGraphLaunch, graph, stream); }
FAKE(cuGraphLaunch_ptsz, CUgraphExec graph, CUstream stream) {
    return launch_graph(Fn::cuGraphLaunch_ptsz, graph, per_thread(stream));
}

// --- Modules: any image is taken, every function exists and does nothing.

static char some_module;
static char some_function;

static CUresult load(Fn fn, CUmodule* out, const void* image) {
    return call(
        fn,
        [&](Frame& f) -> CUresult {
            Context* c = nullptr;
            if (CUresult code = f.current(c)) return code;
            if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
            *out = reinterpret_cast<CUmodule>(&some_module);
            return CUDA_SUCCESS;
        },
        out);
}
FAKE(cuModuleLoadData, CUmodule* out, const void* image) { return load(Fn::cuModuleLoadData, out, image); }
FAKE(cuModuleLoadDataEx, CUmodule* out, const void* image, unsigned, void*, void**) {
    return load(Fn::cuModuleLoadDataEx, out, image);
}

FAKE(cuModuleGetFunction, CUfunction* out, CUmodule module, const char* name) {
    return call(
        Fn::cuModuleGetFunction,
        [&](Frame&) -> CUresult {
            if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
            if (reinterpret_cast<char*>(module) != &some_module) return CUDA_ERROR_INVALID_HANDLE;
            *out = reinterpret_cast<CUfunction>(&some_function);
            return CUDA_SUCCESS;
        },
        out);
}

FAKE(cuModuleUnload, CUmodule module) {
    return call(Fn::cuModuleUnload, [&](Frame&) -> CUresult {
        return reinterpret_cast<char*>(module) == &some_module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    });
}

FAKE(cuModuleGetLoadingMode, int* mode) {
    return call(
        Fn::cuModuleGetLoadingMode,
        [&](Frame&) -> CUresult {
            if (!mode) return CUDA_ERROR_INVALID_VALUE;
            *mode = 2; // lazy
            return CUDA_SUCCESS;
        },
        mode);
}
