"""Names that matter to the static scan: which of them earns which flag."""

import sys

__all__ = [
    "ALLOWED_STORES",
    "ASSERTION",
    "COMPARISON",
    "COMPARISON_NAMES",
    "DEFAULT_ALIASES",
    "DESCRIPTORS",
    "FORKED",
    "HELPER",
    "INTERNALS",
    "MODULE_FLAGS",
    "NATIVE",
    "PATH_FLAGS",
    "PLANTED",
    "READ",
    "RUNTIME",
    "SHADOWED_MODULES",
    "SHELL",
    "SHELL_ALLOWED",
    "SIGNAL",
    "STARTUP_FILES",
    "UNSCANNED",
    "WORD_FLAGS",
]

COMPARISON = "suspect: comparison overridden"
NATIVE = "suspect: native memory"
INTERNALS = "suspect: interpreter internals"
SHELL = "suspect: shell changed"
HELPER = "suspect: test helper replaced"
DESCRIPTORS = "suspect: file descriptors"
PLANTED = "suspect: module planted"
ASSERTION = "suspect: assertion changed"
RUNTIME = "suspect: code built at run time"
SIGNAL = "suspect: signal handler"
READ = "suspect: grading cell read"
FORKED = "suspect: interpreter forked"
UNSCANNED = "suspect: too complex to scan"

# Methods by which an answer decides its own comparison. Arithmetic counts where a test helper
# subtracts and rounds (assertAlmostEqual), or hands the comparison to the answer (numpy).
COMPARISON_NAMES = frozenset(
    [
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__bool__",
        "__contains__",
        "__instancecheck__",
        "__subclasscheck__",
        "__subclasshook__",
        "__array__",
        "__array_ufunc__",
        "__array_function__",
        "__getattribute__",
        "__sub__",
        "__rsub__",
        "__abs__",
        "__round__",
        "__float__",
        "__index__",
        "__class__",
    ]
)


def _spread(*pairs: tuple[str, str]) -> dict[str, str]:
    return {name: flag for flag, names in pairs for name in names.split()}


# Attribute names, imported names, keywords, and words inside string constants.
WORD_FLAGS = _spread(
    (
        NATIVE,
        """ctypes cffi as_strided __array_interface__ __array_struct__ __cuda_array_interface__
        CodeType process_vm_writev process_vm_readv ptrace PTRACE_POKEDATA pythonapi
        LowLevelCallable carray farray load_extension enable_load_extension
        ExtensionFileLoader load_dynamic create_dynamic load_library from_blob foreign_buffer
        co_consts co_names co_code co_varnames co_freevars co_filename co_firstlineno PyDLL CDLL
        pyximport __dlpack__ from_dlpack _sparsetools""",
    ),
    (
        INTERNALS,
        """_getframe _getframemodulename currentframe _current_frames _current_exceptions f_back
        f_locals f_globals f_builtins f_lineno f_code f_trace tb_frame tb_next tb_lasti gi_frame
        gi_code cr_frame cr_code ag_frame ag_code cr_origin gi_yieldfrom cr_await __traceback__
        last_traceback last_value last_exc getmodule EvalEnvironment eval_env _frame_depth
        _stack_depth extract_module_locals extract_vars_above __globals__ __code__ __closure__
        cell_contents
        __subclasses__ __kwdefaults__ __defaults__ get_objects get_referrers get_referents
        settrace setprofile settrace_all_threads setprofile_all_threads sys.monitoring
        addaudithook unraisablehook breakpointhook meta_path path_hooks path_importer_cache
        _posixsubprocess get_stack getinnerframes getouterframes getargvalues walk_tb walk_stack""",
    ),
    (
        SHELL,
        """ast_transformers input_transformers input_transformers_cleanup input_transformers_post
        input_transformer_manager run_cell run_cell_async run_code run_ast_nodes showtraceback
        showsyntaxerror _showtraceback set_custom_exc custom_exceptions InteractiveTB
        should_run_async user_ns user_global_ns user_module displayhook display_pub excepthook
        safe_execfile pre_run_cell post_run_cell pre_execute post_execute init_user_ns""",
    ),
    (
        ASSERTION,
        "__builtins__ __build_class__ failureException",
    ),
    (READ, "input_hist_raw input_hist_parsed history_manager get_range linecache parent_header"),
    (RUNTIME, "__reduce__ __reduce_ex__ __prepare__ FunctionType LambdaType SourceFileLoader"),
    (DESCRIPTORS, "closerange dup2 fromfd fromshare recv_fds send_fds pidfd_getfd pass_fds"),
    (SIGNAL, "setitimer pthread_kill siginterrupt set_wakeup_fd sigwaitinfo"),
    (FORKED, "forkpty fork_exec register_at_fork _bootstrap _launch popen_fork"),
)

# A module that has no other use.
MODULE_FLAGS = _spread(
    (COMPARISON, "pyparsing dirty_equals hamcrest numpy.ma"),
    (
        NATIVE,
        """ctypes _ctypes cffi _cffi_backend marshal pyximport Cython cython cppyy llvmlite
        numpy.ctypeslib numpy.f2py torch.utils.cpp_extension _testcapi _testinternalcapi
        _interpreters _xxsubinterpreters _xxinterpchannels gdb ptrace bytecode
        setuptools distutils weave mypyc""",
    ),
    (
        INTERNALS,
        """bdb pdb trace dis opcode _thread pandas.core.computation
        IPython.utils.frame patsy jupyt5 sys.monitoring atexit
        faulthandler executing varname sorcery
        forbiddenfruit _tracemalloc""",
    ),
    (RUNTIME, "codeop code runpy imp importlib.machinery importlib.util dill cloudpickle"),
    (READ, "linecache"),
    (HELPER, "unittest.mock mock _pytest gorilla wrapt pytest_mock"),
    (SIGNAL, "signal _signal"),
    (DESCRIPTORS, "fcntl _posixshmem"),
)

# Things in modules that also have honest uses, by their full names.
PATH_FLAGS = _spread(
    (COMPARISON, "pytest.approx unittest.mock.ANY types.new_class altair.datum altair.expr"),
    (
        INTERNALS,
        """inspect.stack inspect.trace gc.callbacks sys.modules.values
        sys.modules.items sys.modules.copy os.register_at_fork threading.settrace
        threading.setprofile threading.excepthook""",
    ),
    (
        READ,
        """traceback.extract_stack traceback.format_stack traceback.print_stack
        traceback.walk_stack
        traceback.FrameSummary warnings.formatwarning traceback.StackSummary
        traceback.extract_tb inspect.getframeinfo""",
    ),
    (
        DESCRIPTORS,
        """os.write os.writev os.pwrite os.pwritev os.dup os.dup2 os.close os.closerange
        os.fdopen os.sendfile os.splice os.copy_file_range os.set_inheritable os.ftruncate
        os.read socket.fromfd socket.recv_fds posix.write posix.dup posix.dup2 posix.close""",
    ),
    (FORKED, "os.fork os.forkpty pty.fork pty.spawn posix.fork posix.forkpty"),
    (
        PLANTED,
        """sys.modules.update sys.modules.pop sys.modules.setdefault sys.modules.clear
        sys.modules.__setitem__ sys.modules.__delitem__ sys.modules.popitem site.addsitedir""",
    ),
    (
        RUNTIME,
        """types.FunctionType types.LambdaType types.CodeType importlib.util.module_from_spec
        importlib.util.spec_from_file_location importlib.__import__ pickle.Unpickler""",
    ),
    (NATIVE, "mmap.PROT_EXEC numpy.lib.stride_tricks.as_strided"),
    (HELPER, "unittest.mock"),
    (ASSERTION, "builtins.__dict__"),
)

# What people's notebooks rightly set on things they did not define; a full name or its beginning.
ALLOWED_STORES = (
    "pandas.options.",
    "pandas.plotting.",
    "matplotlib.",
    "seaborn.",
    "warnings.",
    "ssl.",
    "PIL.",
    "torch.backends.",
    "tensorflow.",
    "keras.",
    "altair.",
    "alt.",
    "plotly.",
    "bokeh.",
    "tqdm.",
    "logging.",
    "locale.",
    "sys.stdout",
    "sys.stderr",
    "sys.stdin",
    "sys.argv",
    "sys.path",
    "sys.dont_write_bytecode",
    "sys.tracebacklimit",
    "os.environ",
    "IPython.core.interactiveshell.InteractiveShell.ast_node_interactivity",
    "IPython.core.interactiveshell.InteractiveShell.colors",
)

# Parts of the shell that a notebook may touch.
SHELL_ALLOWED = frozenset(
    [
        "run_line_magic",
        "run_cell_magic",
        "magic",
        "system",
        "getoutput",
        "system_raw",
        "system_piped",
        "set_next_input",
        "__class__",
        "config",
        "kernel",
        "register_magics",
        "register_magic_function",
        "enable_matplotlib",
        "enable_gui",
        "ast_node_interactivity",
        "__name__",
        "__module__",
        "has_trait",
        "colors",
    ]
)

# What a name means when nobody says: cells rely on imports made elsewhere in a notebook.
DEFAULT_ALIASES = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "mpl": "matplotlib",
    "sns": "seaborn",
    "sp": "scipy",
} | {
    name: name
    for name in [
        "numpy",
        "pandas",
        "scipy",
        "sympy",
        "unittest",
        "nose",
        "pytest",
        "IPython",
        "builtins",
        "math",
        "os",
        "sys",
        "inspect",
        "operator",
        "types",
        "importlib",
        "threading",
        "subprocess",
        "random",
        "itertools",
        "functools",
        "collections",
        "re",
        "json",
        "io",
        "socket",
        "traceback",
        "linecache",
        "pickle",
        "ctypes",
    ]
}

# Files that an interpreter or a test runner reads by itself.
STARTUP_FILES = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini"})

SHADOWED_MODULES = frozenset(
    [
        "numpy",
        "pandas",
        "scipy",
        "sympy",
        "matplotlib",
        "seaborn",
        "sklearn",
        "statsmodels",
        "networkx",
        "nltk",
        "nose",
        "pytest",
        "IPython",
        "ipykernel",
        "sqlalchemy",
        "altair",
        "torch",
        "tensorflow",
        "hypothesis",
    ]
) | frozenset(sys.stdlib_module_names)
